package content

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadMarkdown(t *testing.T) {
	t.Parallel()
	got := readMarkdown("---\r\ndescription: \"Of desks\"\n---\n# A *desk*\n\nFirst [line](http://x.example),\n" +
		"second line.\n## How `it` stands ##\n- one\n2. two\n> three\n```\n# code\n```\n\\*last\\*\n")
	want := article{title: "A desk", description: "Of desks", headings: []string{"How it stands"},
		prose: []string{"First line, second line.", "one", "two", "three", "*last*"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(article{})); diff != "" {
		t.Error(diff)
	}
	if a := readMarkdown("---\ndescription: none\n\ntext"); a.description != "" {
		t.Errorf("front matter without an end has the description %q", a.description)
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"One. Two! Three? Four":             {"One.", "Two!", "Three?", "Four"},
		"Version 2.5 of Node.js is here.":   {"Version 2.5 of Node.js is here."},
		"Dr. Example met Mrs. Sample. Yes.": {"Dr. Example met Mrs. Sample.", "Yes."},
		"He said “go.” They went.":          {"He said “go.”", "They went."},
		"":                                  nil,
	} {
		if diff := cmp.Diff(want, sentences(text)); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func TestSyllables(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]int{"a": 1, "desk": 1, "make": 1, "table": 2, "used": 1, "wanted": 2, "takes": 1,
		"boxes": 2, "standing": 2, "the": 1, "you": 1, "reading": 2, "organisation": 5, "x1": 1, "café": 2, "be": 1,
		"e": 1, "le": 1} {
		if got := syllablesOf(word); got != want {
			t.Errorf("%s has %d syllables, want %d", word, got, want)
		}
	}
}

func TestReadingEase(t *testing.T) {
	t.Parallel()
	// 6 words, 1 sentence, 7 syllables.
	a := readMarkdown("The cat sat on the table.")
	if got, want := a.readingEase(), 206.835-1.015*6-84.6*7/6; math.Abs(got-want) > 1e-9 {
		t.Errorf("reading ease %v, want %v", got, want)
	}
	if a := readMarkdown("# Title alone"); a.readingEase() != 0 {
		t.Errorf("reading ease without prose is %v", a.readingEase())
	}
}

func TestExtractCountsByDegreeAndFrequency(t *testing.T) {
	t.Parallel()
	// Candidates: "quiet motor", "motor", "steel frame desk". Degrees: quiet 2, motor 3 of 2
	// occurrences, each word of the third 3.
	want := []phrase{{"steel frame desk", 9}, {"quiet motor", 3.5}, {"motor", 1.5}}
	if diff := cmp.Diff(want, extract("A quiet motor, and the motor of a steel frame desk."),
		cmp.AllowUnexported(phrase{})); diff != "" {
		t.Error(diff)
	}
}

func TestPhrasesAreCountedWithoutOverlap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"ha ha": 1, "ha ha ha": 1, "ha ha ha ha": 2, "ha ho ha ha": 1, "ha": 0} {
		if got := countPhrase(tokens(text), tokens("ha ha")); got != want {
			t.Errorf("%q has the phrase %d times, want %d", text, got, want)
		}
	}
}
