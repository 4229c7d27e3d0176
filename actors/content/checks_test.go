package content

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainWords returns n words of one syllable in short sentences.
func plainWords(n int) string {
	return strings.Repeat(strings.Repeat("cat ", 9)+"cat. ", n/10) + strings.Repeat("cat ", n%10) + ". "
}

// TestBoundsOfChecks checks that each check passes at its bound and fails beside it.
func TestBoundsOfChecks(t *testing.T) {
	t.Parallel()
	head := func(title, description, rest string) string {
		return fmt.Sprintf(`<title>%s</title><meta name="description" content="%s">%s`, title, description, rest)
	}
	all := `<link rel="canonical" href="https://x.example/a"><meta property="og:title" content="x">` +
		`<meta property="og:description" content="x"><meta property="og:type" content="x">`
	repeat := strings.Repeat
	cases := []struct {
		strategy, check string
		passes, fails   string
	}{
		{BlogPost, "word_count", plainWords(600), plainWords(599)},
		{BlogPost, "word_count", plainWords(1800), plainWords(1801)},
		{BlogPost, "keyword_in_opening", plainWords(98) + "desk lamp", plainWords(99) + "desk lamp"},
		{BlogPost, "keyword_in_title", "# The desk-lamp guide", "# The desk and lamp guide\n\ndesk lamp"},
		{BlogPost, "keyword_in_heading", "# X\n\n## A desk lamp", "# Desk lamp\n\n## A lamp"},
		{BlogPost, "heading_count", "# X\n\n## A\n\n### B\n\n## C", "# X\n\n## A\n\n## B"},
		// 10 words of 17 syllables have an ease of 52.9, of 18 of 44.4.
		{BlogPost, "reading_ease", repeat("cat ", 3) + repeat("table ", 7), repeat("cat ", 2) + repeat("table ", 8)},
		{BlogPost, "keyword_density", plainWords(198) + "desk lamp.", plainWords(199) + "desk lamp."},
		{BlogPost, "keyword_density", plainWords(38) + "desk lamp.", plainWords(37) + "desk lamp."},
		{BlogPost, "sentence_length", repeat("cat ", 40) + ".", repeat("cat ", 41) + "."},
		{BlogPost, "meta_description", "---\ndescription: x\n---\ntext", "---\ndescription: \"\"\n---\ntext"},
		{ProductDescription, "word_count", plainWords(80), plainWords(79)},
		{ProductDescription, "word_count", plainWords(300), plainWords(301)},
		{BlogPost, "subject_matter", "A bulb and cable, a question on a page, a source.",
			"A glass bulb and cable, a question on a page, a source."},
		{ProductDescription, "features_named", "A Glass shade. Long cord: so you can move about.",
			"A glass shade. A long cord."},
		{ProductDescription, "keyword_in_first_sentence", "This desk lamp shines. Yes.",
			"It shines. This desk lamp does."},
		{ProductDescription, "no_new_claims", "A lamp with a long cord.", "The finest lamp."},
		{ProductDescription, "no_new_claims", "A lamp.", "A lamp of 40 cm."},
		{ProductDescription, "no_new_claims", "A long cord, so you can move about.",
			"A glass shade, so you can move about."},
		{ProductDescription, "no_new_claims", "A long cord, so you can move about.",
			"A long cord, so you can move about, saves you time."},
		{ProductDescription, "subject_matter", "A glass question.", "Questions on a lamp."},
		{MetaTags, "title_length", head(repeat("é", 30), "", ""), head(repeat("é", 29), "", "")},
		{MetaTags, "title_length", head(repeat("é", 60), "", ""), head(repeat("é", 61), "", "")},
		{MetaTags, "description_length", head("", repeat("é", 70), ""), head("", repeat("é", 69), "")},
		{MetaTags, "description_length", head("", repeat("é", 158), ""), head("", repeat("é", 159), "")},
		{MetaTags, "keyword_in_title", head("A Desk Lamp", "", ""), head("A Desk", "desk lamp", "")},
		{MetaTags, "keyword_in_description", head("", "The desk lamp", ""), head("desk lamp", "The desk", "")},
		{MetaTags, "no_duplicate_tags", head("", "", all), head("", "", all+"<title>x</title>")},
		{MetaTags, "addresses_absolute", head("", "", all), head("", "", `<link rel="canonical" href="/x">`)},
		{MetaTags, "addresses_absolute", head("", "", ""), head("", "", `<meta property="og:url" content="x.example">`)},
		{MetaTags, "subject_matter", head("A bulb", "A question", ""), head("A desk", "A lamp", "")},
		{MetaTags, "open_graph_present", head("", "", all),
			head("", "", strings.Replace(all, "og:type", "og:kind", 1))},
	}
	seen := map[string]bool{}
	for _, c := range cases {
		seen[c.strategy+c.check] = true
		r := normal(Request{Strategy: c.strategy, Subject: "desk lamp",
			Features: []string{"glass shade", "long cord, so you can move about"}})
		if p := examine(&r, c.passes); slices.Contains(p.failed, c.check) {
			t.Errorf("%s: %s fails with %v for %.80q", c.strategy, c.check, p.values[c.check], c.passes)
		}
		if p := examine(&r, c.fails); !slices.Contains(p.failed, c.check) {
			t.Errorf("%s: %s passes with %v for %.80q", c.strategy, c.check, p.values[c.check], c.fails)
		}
	}
	for strategy, list := range checks {
		for _, c := range list {
			if !seen[strategy+c.name] {
				t.Errorf("%s: %s has no case", strategy, c.name)
			}
		}
	}
}

// TestChecksAreDocumented checks that the table of the decision has every check with its
// weight.
func TestChecksAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/decisions/0017-checks-of-texts.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) == 4 && cells[2] != "Weight" {
			got = append(got, strings.TrimPrefix(strings.Join(cells[:3], " "), "| "))
		}
	}
	for _, strategy := range []string{BlogPost, ProductDescription, MetaTags} {
		for _, c := range checks[strategy] {
			want = append(want, fmt.Sprintf("%s %s %v", strategy, c.name, c.weight))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
