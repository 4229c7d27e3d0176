package content

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ordinary are requests as people make them.
var ordinary = []Request{
	{Subject: "standing desk", Features: []string{"quiet motor", "memory presets", "steel frame"}},
	{Subject: "running shoes", Keywords: []string{"trail running shoes"}, Features: []string{"grippy sole", "washable insole"}},
	{Subject: "remote work"},
	{Subject: "how to bake sourdough bread"},
	{Subject: "C++"},
	{Subject: "AI"},
	{Subject: "natural_gas"},
	{Subject: "olive oil", Keywords: []string{"cold pressed olive oil", "mediterranean kitchen"}},
	{Subject: "running shoes", Keywords: []string{"marathon"}},
	{Subject: "Dr. Example's heat-pump handbook", Locale: "en-GB"},
	{Subject: "backpack", Features: strings.Split("rain cover,steel buckle,laptop sleeve,20 litres,wide straps,two pockets,chest belt,light frame,bottle holder,reflective strips", ",")},
}

func written(t *testing.T, w *Writer, r Request) (Text, metadata) {
	t.Helper()
	text, err := w.Write(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	var m metadata
	if err := json.Unmarshal(text.Metadata, &m); err != nil {
		t.Fatal(err)
	}
	return text, m
}

func newWriter(t *testing.T, o Options) *Writer {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTheBuiltInWriterPassesItsChecks(t *testing.T) {
	t.Parallel()
	w := newWriter(t, Options{})
	for strategy, lifetime := range lifetimes {
		for _, r := range ordinary {
			r.Strategy = strategy
			text, m := written(t, w, r)
			if text.Confidence != 1 || len(m.Failed) > 0 {
				t.Errorf("%s on %s: confidence %v, failed %v\n%s", strategy, r.Subject, text.Confidence, m.Failed, text.Content)
			}
			if text.Lifetime != lifetime || m.Writer != "template" || m.Content != text.Content || m.Reasoning == "" || m.Fallback != "" {
				t.Errorf("%s on %s: lifetime %v, metadata %+v", strategy, r.Subject, text.Lifetime, m)
			}
			for _, name := range m.Indicators {
				if _, ok := m.Values[name]; !ok {
					t.Errorf("%s on %s: check %s has no value", strategy, r.Subject, name)
				}
			}
			for _, bad := range []string{"<no value>", "{{", "%!", "  ", "\n\n\n"} {
				if strings.Contains(text.Content, bad) {
					t.Errorf("%s on %s: the text holds %q:\n%s", strategy, r.Subject, bad, text.Content)
				}
			}
		}
	}
}

func TestLifetimes(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	want := map[string]time.Duration{BlogPost: 30 * day, ProductDescription: 60 * day, MetaTags: 14 * day}
	if diff := cmp.Diff(want, lifetimes); diff != "" {
		t.Error(diff)
	}
}

func TestEqualRequestsGetEqualTexts(t *testing.T) {
	t.Parallel()
	w, other := newWriter(t, Options{}), newWriter(t, Options{})
	texts := map[string]bool{}
	for strategy := range lifetimes {
		for i, r := range ordinary {
			r.Strategy = strategy
			a, _ := written(t, w, r)
			b, _ := written(t, other, r)
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("%s %d: equal requests differ:\n%s", strategy, i, diff)
			}
			// With the subject's words aside, texts differ by what was drawn.
			texts[strings.ReplaceAll(strings.ToLower(a.Content), strings.ToLower(r.Subject), "")] = true
		}
	}
	if want := len(lifetimes) * len(ordinary); len(texts) != want {
		t.Errorf("%d different texts, want %d", len(texts), want)
	}
}

func TestForeignTextsStandAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWriter(t, Options{})
	for _, subject := range []string{`<script>alert("x")</script>`, `a*b_c [link](http://x) #1`, "🚀", "{{.Title}}", "%d%s", "立ち机", strings.Repeat("long ", 12) + "name"} {
		for strategy := range lifetimes {
			text, _ := written(t, w, Request{Strategy: strategy, Subject: subject, Features: []string{subject}})
			if strings.Contains(text.Content, "<script>") && !strings.Contains(text.Content, `\<script`) {
				t.Errorf("%s: markup of the subject is markup of the text:\n%s", strategy, text.Content)
			}
			if text.Confidence < 0.5 {
				t.Errorf("%s on %q: confidence %v", strategy, subject, text.Confidence)
			}
		}
	}
}

func TestUnknownStrategyIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := newWriter(t, Options{}).Write(context.Background(), Request{Strategy: "poem", Subject: "desk"}); err == nil {
		t.Error("no error")
	}
}

// spoiled are texts with one fault each.
func TestEveryCheckFailsOnItsFault(t *testing.T) {
	t.Parallel()
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, old, new) }
	}
	cases := []struct {
		check, strategy string
		spoil           func(string) string
	}{
		{"keyword_in_title", BlogPost, replace("# Standing Desk", "# Table")},
		{"keyword_in_opening", BlogPost, func(s string) string { return strings.Replace(s, "a standing desk", "a table", 3) }},
		{"keyword_in_heading", BlogPost, func(s string) string {
			lines := strings.Split(s, "\n")
			for i, l := range lines {
				if strings.HasPrefix(l, "## ") {
					lines[i] = strings.ReplaceAll(l, "standing desk", "table")
				}
			}
			return strings.Join(lines, "\n")
		}},
		{"word_count", BlogPost, func(s string) string { return s[:len(s)/2] }},
		{"heading_count", BlogPost, replace("\n## ", "\n")},
		{"reading_ease", BlogPost, replace("e ", "ationality ")},
		{"keyword_density", BlogPost, func(s string) string { return s + strings.Repeat("Standing desk. ", 30) }},
		{"sentence_length", BlogPost, replace(". ", ", ")},
		{"meta_description", BlogPost, replace("---\n", "")},
		{"word_count", ProductDescription, func(s string) string { return s + strings.Repeat("And so on. ", 100) }},
		{"features_named", ProductDescription, replace("Steel frame", "Frame of it")},
		{"feature_benefits", ProductDescription, replace("so you can", "and")},
		{"keyword_in_first_sentence", ProductDescription, func(s string) string { return strings.Replace(s, "this standing desk", "it", 1) }},
		{"no_new_claims", ProductDescription, func(s string) string { return s + "It is the best of all." }},
		{"no_new_claims", ProductDescription, func(s string) string { return s + "It carries 80 kg." }},
		{"title_length", MetaTags, replace("<title>", "<title>"+strings.Repeat("very ", 10))},
		{"description_length", MetaTags, replace(`name="description" content="`, `name="description" content="`+strings.Repeat("very ", 30))},
		{"keyword_in_title", MetaTags, replace("<title>Standing Desk", "<title>A Table to Stand at")},
		{"keyword_in_description", MetaTags, replace("standing desk", "table at which one stands")},
		{"no_duplicate_tags", MetaTags, func(s string) string { return s + `<meta name="Description" content="again">` }},
		{"canonical_present", MetaTags, replace("canonical", "icon")},
		{"open_graph_present", MetaTags, replace("og:title", "og:name")},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.strategy+" "+c.check] = true
		r := Request{Strategy: c.strategy, Subject: "standing desk", Features: []string{"quiet motor", "memory presets", "steel frame"}}
		text, err := compose(&r)
		if err != nil {
			t.Fatal(err)
		}
		before, p := examine(&r, text), examine(&r, c.spoil(text))
		if before.share != 1 || !slices.Contains(p.failed, c.check) || p.share >= 1 {
			t.Errorf("%s of %s: share %v, then %v with %v failed", c.check, c.strategy, before.share, p.share, p.failed)
		}
	}
	for strategy, list := range checks {
		for _, c := range list {
			if !seen[strategy+" "+c.name] {
				t.Errorf("no case for check %s of %s", c.name, strategy)
			}
		}
	}
}

func TestShareIsTheWeightOfWhatIsPassed(t *testing.T) {
	t.Parallel()
	// Nothing but the weight 3 of no_new_claims is passed: 3 of 12.
	p := examine(&Request{Strategy: ProductDescription, Subject: "desk", Features: []string{"drawer"}}, "A table.")
	if p.share != 0.25 {
		t.Errorf("share is %v, failed %v", p.share, p.failed)
	}
	if p := examine(&Request{Strategy: MetaTags, Subject: "desk"}, ""); p.share != rounded(1.0/11, 4) {
		t.Errorf("share of nothing is %v", p.share)
	}
}

func FuzzExamine(f *testing.F) {
	for _, r := range ordinary {
		for strategy := range lifetimes {
			r.Strategy = strategy
			text, err := compose(&r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(strategy, r.Subject, text)
		}
	}
	f.Add(BlogPost, "", "---\n---\n# \n```\n1) [x](y\\")
	f.Fuzz(func(t *testing.T, strategy, keyword, text string) {
		if lifetimes[strategy] == 0 {
			strategy = BlogPost
		}
		r := Request{Strategy: strategy, Subject: keyword, Features: []string{keyword}}
		if s := finish(&r, text, metadata{}); s.Confidence < 0 || s.Confidence > 1 {
			t.Errorf("confidence %v", s.Confidence)
		}
	})
}

func FuzzCompose(f *testing.F) {
	for _, r := range ordinary {
		f.Add(r.Subject, strings.Join(r.Keywords, ","), strings.Join(r.Features, ","), r.Locale)
	}
	f.Fuzz(func(t *testing.T, subject, keywords, features, locale string) {
		for strategy := range lifetimes {
			r := Request{Strategy: strategy, Subject: subject, Keywords: strings.Split(keywords, ","), Features: strings.Split(features, ","), Locale: locale}
			text, err := compose(&r)
			if err != nil {
				t.Fatal(err)
			}
			finish(&r, text, metadata{})
		}
	})
}

// TestOpeningsHangTogether: what the guide is made for is what readers hope for.
func TestOpeningsHangTogether(t *testing.T) {
	t.Parallel()
	w := newWriter(t, Options{})
	for i := range 60 {
		text, _ := written(t, w, Request{Strategy: BlogPost, Subject: fmt.Sprintf("desk %d", i)})
		if strings.Contains(text.Content, "advice than they can use. This guide tries to give just that") ||
			strings.Contains(text.Content, "advice than they can use. This guide is made for that") {
			t.Fatalf("the guide promises more advice than one can use:\n%.400s", text.Content)
		}
	}
}

func TestBenefitOfFees(t *testing.T) {
	t.Parallel()
	if got := benefitOf("no fees until signing"); got != "so you can keep an eye on the cost" {
		t.Errorf("%q", got)
	}
}
