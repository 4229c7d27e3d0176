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
	"standing desk", "running shoes for beginners", "ergonomic chair", "electric kettle", "backpack", "iPhone case",
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

// excused reports whether no text of the built-in writer could pass a check.
func excused(r *Request, check string) bool {
	keyword := r.Keyword()
	switch check {
	case subjectMatter: // the built-in writer knows nothing of the subject
		return true
	case "title_length":
		return len([]rune(keyword)) > maxTitle
	case "word_count": // the names of features alone are many words
		return r.Strategy == ProductDescription && len(tokens(strings.Join(r.Features, " "))) > 240
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
		"a an ", "a a ", "the the ", "What do you need"} {
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
		if newBenefits(r, s) > 0 {
			t.Errorf("%s: %q names a benefit:\n%s", r.Strategy, s, text)
		}
		if len(tokens(s)) > 4 && seen[s] {
			t.Errorf("%s: the sentence %q comes twice:\n%s", r.Strategy, s, text)
		}
		seen[s] = true
	}
}
