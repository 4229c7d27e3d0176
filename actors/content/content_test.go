package content

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ordinary holds realistic requests.
var ordinary = []Request{
	{Subject: "standing desk", Features: []string{"quiet motor, so you can take calls", "memory presets",
		"steel frame"}},
	{Subject: "running shoes", Keywords: []string{"trail running shoes"},
		Features: []string{"grippy sole", "washable insole"}},
	{Subject: "remote work"},
	{Subject: "how to bake sourdough bread"},
	{Subject: "C++"},
	{Subject: "AI"},
	{Subject: "natural_gas"},
	{Subject: "olive oil", Keywords: []string{"cold pressed olive oil", "mediterranean kitchen"}},
	{Subject: "running shoes", Keywords: []string{"marathon"}},
	{Subject: "Dr. Example's heat-pump handbook", Locale: "en-GB"},
	{Subject: "backpack", Features: strings.Split("rain cover,steel buckle,laptop sleeve,20 litres,wide straps,"+
		"two pockets,chest belt,light frame,bottle holder,reflective strips", ",")},
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

// TestTheBuiltInWriterPassesItsChecks except that its texts are frames: a blog post always, the others unless the
// features fill them.
func TestTheBuiltInWriterPassesItsChecks(t *testing.T) {
	t.Parallel()
	w := newWriter(t, Options{})
	for strategy, lifetime := range lifetimes {
		for _, r := range ordinary {
			r.Strategy = strategy
			text, m := written(t, w, r)
			frame := slices.Equal(m.Failed, []string{subjectMatter})
			complete := len(m.Failed) == 0 && text.Confidence == 1 && strategy != BlogPost && len(r.Features) > 0
			if frame == complete || frame != strings.Contains(m.Reasoning, "only a frame to be filled in") {
				t.Errorf("%s on %s: confidence %v, failed %v\n%s", strategy, r.Subject, text.Confidence, m.Failed,
					m.Content)
			}
			if text.Lifetime != lifetime || m.Writer != "template" || m.Content == "" || m.Reasoning == "" ||
				m.Fallback != "" {
				t.Errorf("%s on %s: lifetime %v, metadata %+v", strategy, r.Subject, text.Lifetime, m)
			}
			for _, name := range m.Indicators {
				if _, ok := m.Values[name]; !ok {
					t.Errorf("%s on %s: check %s has no value", strategy, r.Subject, name)
				}
			}
		}
	}
}

func TestEqualRequestsGetEqualTexts(t *testing.T) {
	t.Parallel()
	w, other := newWriter(t, Options{}), newWriter(t, Options{})
	for strategy := range lifetimes {
		for i, r := range ordinary {
			r.Strategy = strategy
			a, _ := written(t, w, r)
			b, _ := written(t, other, r)
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("%s %d: equal requests differ:\n%s", strategy, i, diff)
			}
		}
	}
	a, _ := written(t, w, Request{Strategy: BlogPost, Subject: "desk", Features: []string{"drawer"}, Locale: "en-US"})
	b, _ := written(t, w, Request{Strategy: BlogPost, Subject: " desk", Keywords: []string{" "},
		Features: []string{"drawer ", "Drawer", ""}})
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("requests for the same differ:\n%s", diff)
	}
}

// TestLanguageOfTheText checks that a request for another language is noted.
func TestLanguageOfTheText(t *testing.T) {
	t.Parallel()
	for locale, want := range map[string]string{"de-DE": `content="en_US"`, "en-gb": `content="en_GB"`,
		"": `content="en_US"`} {
		_, m := written(t, newWriter(t, Options{}), Request{Strategy: MetaTags, Subject: "desk", Locale: locale})
		if noted := strings.Contains(m.Reasoning, "does not know de-DE"); !strings.Contains(m.Content, want) ||
			noted != (locale == "de-DE") {
			t.Errorf("%s: %s\n%s", locale, m.Reasoning, m.Content)
		}
	}
}

func TestUnusualSubjects(t *testing.T) {
	t.Parallel()
	w := newWriter(t, Options{})
	for _, subject := range []string{`<script>alert("x")</script>`, `a*b_c [link](http://x) #1`, "🚀", "{{.Title}}",
		"%d%s", "立ち机", strings.Repeat("long ", 12) + "name"} {
		for strategy := range lifetimes {
			text, m := written(t, w, Request{Strategy: strategy, Subject: subject, Features: []string{subject}})
			if strings.Contains(m.Content, "<script>") && !strings.Contains(m.Content, `\<script`) {
				t.Errorf("%s: markup of the subject is markup of the text:\n%s", strategy, m.Content)
			}
			if text.Confidence < 0.5 {
				t.Errorf("%s on %q: confidence %v", strategy, subject, text.Confidence)
			}
		}
	}
}

func TestUnknownStrategyIsAnError(t *testing.T) {
	t.Parallel()
	r := Request{Strategy: "poem", Subject: "desk"}
	if _, err := newWriter(t, Options{}).Write(t.Context(), r); err == nil {
		t.Error("no error")
	}
}

func TestShareIsTheWeightOfPassedChecks(t *testing.T) {
	t.Parallel()
	// Nothing but the weight 3 of no_new_claims is passed: 3 of 13.
	p := examine(&Request{Strategy: ProductDescription, Subject: "desk", Features: []string{"drawer"}}, "A question.")
	if p.share != rounded(3.0/13, 4) {
		t.Errorf("share is %v, failed %v", p.share, p.failed)
	}
	if p := examine(&Request{Strategy: MetaTags, Subject: "desk"}, ""); p.share != rounded(2.0/14, 4) {
		t.Errorf("share of an empty text is %v", p.share)
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
			r := normal(Request{Strategy: strategy, Subject: subject, Keywords: strings.Split(keywords, ","),
				Features: strings.Split(features, ","), Locale: locale})
			text, err := compose(&r)
			if err != nil {
				t.Fatal(err)
			}
			finish(&r, text, metadata{})
		}
	})
}
