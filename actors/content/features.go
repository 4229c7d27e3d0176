package content

import "strings"

// feature holds the statements of texts about a feature.
type feature struct {
	Name    string // as given, escaped
	Benefit string // follows "so you can"
	Wish    string // follows "if you want to"; empty if unknown
	Why     string // a sentence on why it matters
	Check   string // a sentence on how to check it
	Ask     string // a question about it
}

// topic holds statements about features whose names contain one of its phrases.
type topic struct {
	kind                           string // of the subjects that have such features; "": of any
	phrases                        [][]string
	benefit, wish, why, check, ask string
}

// topics are read from words/features.txt.
var topics = func() []topic {
	var all []topic
	for _, s := range readSections("words/features.txt") {
		kind, names, found := strings.Cut(s.name, ": ")
		if !found {
			kind, names = "", s.name
		}
		l := s.lines
		t := topic{kind: kind, benefit: l[0], wish: l[1], why: l[2], check: l[3], ask: l[4]}
		for _, w := range strings.Fields(names) {
			t.phrases = append(t.phrases, tokens(w))
		}
		all = append(all, t)
	}
	return all
}()

// topicOf returns the topic with the longest phrase in a name, the first of equal ones,
// except those in used; nil without one.
func topicOf(name string, used map[*topic]bool) *topic {
	words := tokens(name)
	var found *topic
	longest := 0
	for i := range topics {
		t := &topics[i]
		for _, p := range t.phrases {
			if len(p) > longest && !used[t] && countPhrase(words, p) > 0 {
				found, longest = t, len(p)
			}
		}
	}
	return found
}

// kindOfFeatures returns the kind of subject that most of the features suggest; "" if
// none does.
func kindOfFeatures(names []string) string {
	votes := map[string]int{}
	best := ""
	for _, name := range names {
		if t := topicOf(name, nil); t != nil && t.kind != "" {
			if votes[t.kind]++; votes[t.kind] > votes[best] {
				best = t.kind
			}
		}
	}
	return best
}

// maxFeatureWords limits the words of features and their benefits in a text. Beyond it
// one-word benefits are used.
const maxFeatureWords = 220

// words returns the number of words in a line on a feature of a given name.
func (f *feature) words(name string) int { return len(tokens(name + " so you can " + f.Benefit)) }

// describeFeatures returns what a text states about features, and the number of words of
// their names and benefits. A topic is used for one feature only, so that no sentence is
// repeated.
func describeFeatures(names []string, d *drawer) (list []feature, words int) {
	used := map[*topic]bool{}
	for _, name := range names {
		f := feature{Name: escapeMarks(name)}
		if t := topicOf(name, used); t != nil {
			used[t] = true
			f.Benefit, f.Wish, f.Why, f.Check = t.benefit, t.wish, t.why, t.check
			f.Ask = "**" + upperFirst(f.Name) + ":** " + t.ask
			if d.rng.IntN(2) == 0 {
				f.Benefit, f.Wish = f.Wish, f.Benefit
			}
		} else {
			f.Benefit = d.template("benefit")
			f.Why, f.Check, f.Ask = d.about("feature why", f.Name), d.about("feature check", f.Name),
				d.about("feature ask", f.Name)
		}
		words += f.words(name)
		list = append(list, f)
	}
	if words > maxFeatureWords {
		words = 0
		for i := range list {
			list[i].Benefit = d.template("short benefit")
			words += list[i].words(names[i])
		}
	}
	return list, words
}
