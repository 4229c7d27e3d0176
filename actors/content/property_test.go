package content

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// subjects are of every kind, plural and singular, with marks and in other languages.
var subjects = []string{
	"standing desk", "running shoes", "ergonomic chair", "electric kettle", "backpack", "iPhone case",
	"café crème", "olive oil", "sourdough bread", "green tea", "snacks",
	"zero-downtime deploys", "C++", "database migration", "REST API", "kubernetes operators",
	"remote work", "meditation", "email marketing for dentists",
	"how to bake sourdough bread", "How to tie a tie?", "why do cats purr", "what is inflation?",
	"AI", "natural_gas", "BTC", "Lisbon", "hour", "unicycle tricks", "tax rules for small firms",
	"Dr. Example's heat-pump handbook", "an enormous subject of exactly sixty-four characters, plus marks!",
	"立ち机", "Kaffeemaschine", "über-cooler Stuhl", "100% cotton sheets", "a*b_c [link](http://x) #1",
}

// words make up keywords and features.
var words = strings.Fields(`quiet motor memory presets steel frame foldable 1.7 litre rain cover automatic rollback
	health checks fresh roast origin two pockets warranty unusual thing größer naïve Milchschaum A/B x2 light strong
	handle guide plan the and of for with`)

// requests generates valid requests of short phrases.
func requests() *rapid.Generator[Request] {
	return rapid.Custom(func(t *rapid.T) Request {
		phrase := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 14).Draw(t, "words"), " ")
		})
		return Request{
			Subject:  rapid.SampledFrom(subjects).Draw(t, "subject"),
			Keywords: rapid.SliceOfN(phrase, 0, 20).Draw(t, "keywords"),
			Features: rapid.SliceOfN(phrase, 0, 20).Draw(t, "features"),
			Locale:   rapid.SampledFrom([]string{"", "en-US", "en-GB", "de-DE", "ja"}).Draw(t, "locale"),
		}
	})
}

// TestAnyRequestGetsAGoodText checks that every text passes the checks, except those that
// the request itself makes impossible.
func TestAnyRequestGetsAGoodText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := requests().Draw(t, "request")
		for strategy := range lifetimes {
			r.Strategy = strategy
			n := normal(r)
			text, err := compose(&n)
			if err != nil {
				t.Fatal(err)
			}
			p := examine(&n, text)
			failed := slices.DeleteFunc(p.failed, func(name string) bool { return excused(&n, name) })
			if len(failed) > 0 {
				t.Errorf("%s: %v of %v\n%s", strategy, failed, p.values, text)
			}
			readable(t, &n, text)
		}
	})
}

// excused reports whether no text could pass a check.
func excused(r *Request, check string) bool {
	keyword := r.Keyword()
	switch check {
	case "title_length":
		return len([]rune(keyword)) > maxTitle
	case "word_count": // the names of features alone are many words
		return r.Strategy == ProductDescription && len(tokens(strings.Join(r.Features, " "))) > 180
	case "keyword_density": // features and terms that hold the keyword count, too
		n := 0
		for _, s := range slices.Concat(r.Keywords, r.Features) {
			n += countPhrase(tokens(s), tokens(keyword))
		}
		return n > 2 || stopWords[keyword]
	}
	return false
}

// readable fails the test if a text holds something that no person would write.
func readable(t *rapid.T, r *Request, text string) {
	for _, bad := range []string{"<no value>", "{", "}", "%!", "  ", "\n\n\n", " .", " ,", "..", "?.", "?:", "!.", ",.",
		"a an ", "a a ", "the the "} {
		if strings.Contains(text, bad) && !strings.Contains(fmt.Sprint(r.Subject, r.Keywords, r.Features),
			strings.TrimSpace(bad)) {
			t.Errorf("%s: the text holds %q:\n%s", r.Strategy, bad, text)
		}
	}
	if r.Strategy == MetaTags {
		return
	}
	a := readMarkdown(text)
	seen := map[string]bool{}
	for _, s := range a.sentences() {
		if len(tokens(s)) > 4 && seen[s] {
			t.Errorf("%s: the sentence %q comes twice:\n%s", r.Strategy, s, text)
		}
		seen[s] = true
	}
}

// TestLinesKeepToTheirSections checks what the density of the keyword depends on.
func TestLinesKeepToTheirSections(t *testing.T) {
	t.Parallel()
	names := strings.NewReplacer("{a}", "", "{name}", "", "{this}", "", "{T}", "", "{A}", "", "{N}", "")
	need := map[string]int{"reason": 4, "criteria": 4, "ask": 5, "try": 4, "mistake": 4, "check": 6, "faq": 3,
		"next": 2, "picture": 2}
	for kind, sections := range phrases {
		if kind == "common" {
			continue
		}
		for name, n := range need {
			if len(sections[name]) < n {
				t.Errorf("%s: %d lines of %s, %d are drawn", kind, len(sections[name]), name, n)
			}
		}
		seen := map[string]bool{}
		for name, lines := range sections {
			a := readMarkdown(strings.Join(lines, "\n\n"))
			for _, s := range a.sentences() {
				if len(tokens(s)) > 4 && seen[s] && name != "picture" {
					t.Errorf("%s: %q stands there twice", kind, s)
				}
				seen[s] = true
			}
			once := strings.HasSuffix(name, "_lead") && name != "check_lead" || name == "opening" || name == "close"
			free := strings.HasPrefix(name, "h_") || name == "title" || name == "summary"
			for _, line := range lines {
				if has := names.Replace(line) != line; !free && has != once {
					t.Errorf("%s, %s: the keyword is in %q: %v", kind, name, line, has)
				}
			}
			if name == "h_look" && slices.ContainsFunc(lines, func(l string) bool { return names.Replace(l) == l }) {
				t.Errorf("%s: a heading of h_look does not name the keyword", kind)
			}
		}
	}
}

// TestTopics checks that the benefits of known features claim nothing.
func TestTopics(t *testing.T) {
	t.Parallel()
	for _, s := range readSections("words/features.txt") {
		if len(s.lines) != 5 {
			t.Errorf("%s: %d lines", s.name, len(s.lines))
		}
		for _, line := range s.lines[:2] {
			if claims := newClaims(&Request{Subject: strings.ReplaceAll(s.name, ":", " ")}, line); len(claims) > 0 {
				t.Errorf("%q claims %v", line, claims)
			}
		}
	}
	for name, want := range map[string]string{"memory foam": "sit, stand or move in comfort",
		"memory presets":        "come back to your settings in one step",
		"no fees until signing": "keep an eye on the cost", "automatic rollback": "go back when a change turns out bad",
		"blue-green": "try a change on a few before all get it", "something else": ""} {
		got := ""
		if topic := topicOf(name, nil); topic != nil {
			got = topic.benefit
		}
		if got != want {
			t.Errorf("%s: so you can %q, want %q", name, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"standing desk": kindProduct, "coffee machine": kindProduct, "specialty coffee": kindFood,
		"extra virgin olive oil": kindFood, "oil": kindTopic, "zero-downtime deploys": kindTech, "C++": kindTech,
		"remote work": kindTopic, "how to bake bread": kindTask, "how to": kindTopic, "what is an API": kindTopic,
		"natural_gas": kindTopic, "AI": kindTech, "machine learning": kindTech, "espresso beans": kindFood,
		"skin care": kindPractice, "": kindTopic, "hot sauce for grills": kindFood,
	} {
		if got := kindOf(subject, nil); got != want {
			t.Errorf("%s: kind %s, want %s", subject, got, want)
		}
	}
	for kind, features := range map[string][]string{kindProduct: {"steel frame", "quiet motor", "fresh"},
		kindFood: {"fresh roast"}, kindTech: {"automatic rollback"}, kindTopic: {"something"}} {
		if got := kindOf("gizmo", features); got != kind {
			t.Errorf("a gizmo with %q: kind %s, want %s", features, got, kind)
		}
	}
}
