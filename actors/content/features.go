package content

import "strings"

// feature is one as texts tell of it.
type feature struct {
	Name    string // as it was given, escaped
	Benefit string // behind "so you can"
	Wish    string // behind "if you want to"; "" where nothing is known of it
	Why     string // it matters
	Check   string // how to
	Ask     string // what to
}

// topic is what is known of features whose names have one of the phrases.
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
		t := topic{kind: kind, benefit: s.lines[0], wish: s.lines[1], why: s.lines[2], check: s.lines[3], ask: s.lines[4]}
		for _, w := range strings.Fields(names) {
			t.phrases = append(t.phrases, tokens(w))
		}
		all = append(all, t)
	}
	return all
}()

// topicOf returns the topic with the longest phrase in a name, of equals the first,
// without those that were used; nil if there is none.
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

// kindOfFeatures returns the kind of subject that most of the features speak for; ""
// if none does.
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

// maxFeatureWords is how many words features and their benefits may have together, for
// there to be room beside them. Beyond it their benefits are told in one word.
const maxFeatureWords = 220

// words counts those of a line on a feature of a given name.
func (f *feature) words(name string) int { return len(tokens(name + " so you can " + f.Benefit)) }

// tell returns what a text tells of features, and how many words their names and
// benefits have. A topic serves one feature only: no sentence comes twice.
func tell(names []string, d *drawer) (list []feature, words int) {
	used := map[*topic]bool{}
	for _, name := range names {
		f := feature{Name: escapeMarks(name)}
		if t := topicOf(name, used); t != nil {
			used[t] = true
			f.Benefit, f.Wish, f.Why, f.Check, f.Ask = t.benefit, t.wish, t.why, t.check, "**"+upperFirst(f.Name)+":** "+t.ask
			if d.rng.IntN(2) == 0 {
				f.Benefit, f.Wish = f.Wish, f.Benefit
			}
		} else {
			f.Benefit = d.raw("benefit")
			f.Why, f.Check, f.Ask = d.about("feature why", f.Name), d.about("feature check", f.Name), d.about("feature ask", f.Name)
		}
		words += f.words(name)
		list = append(list, f)
	}
	if words > maxFeatureWords {
		words = 0
		for i := range list {
			list[i].Benefit = d.raw("short benefit")
			words += list[i].words(names[i])
		}
	}
	return list, words
}
