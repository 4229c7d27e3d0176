package strategy

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxTextBytes bounds the part of a headline or body that is read.
const maxTextBytes = 2000

// textAnalyser scores text: VADER with an overlay for finance.
type textAnalyser struct {
	vader   *vader
	phrases map[string]bool // words joined by "_"
	longest int             // words of the longest phrase
}

// analyser is built on first use and read-only afterwards.
var analyser = sync.OnceValue(newTextAnalyser)

func newTextAnalyser() *textAnalyser {
	a := &textAnalyser{vader: newVader(), phrases: map[string]bool{}}
	for _, w := range neutralWords {
		delete(a.vader.lexicon, w)
	}
	for weight, words := range financeWords {
		for _, w := range words {
			a.vader.lexicon[w] = weight
		}
	}
	for weight, phrases := range financePhrases {
		for _, p := range phrases {
			joined := joinWords(p)
			a.phrases[joined] = true
			a.vader.lexicon[joined] = weight
			a.longest = max(a.longest, strings.Count(joined, "_")+1)
		}
	}
	return a
}

// TextScore returns the sentiment of an English text about its subject, from -1 for very
// bad to 1 for very good.
func TextScore(text string) float64 {
	a := analyser()
	score := a.vader.score(a.joinPhrases(cut(text, maxTextBytes)))
	if !finite(score) {
		return 0
	}
	return clip(score, -1, 1)
}

// plainMarks replaces typographic marks by those that the analyser knows.
var plainMarks = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`, "…", " ", "–", " ", "—", " ")

// underscores joins the words of a phrase.
var underscores = strings.NewReplacer(" ", "_", "-", "_")

// joinPhrases replaces known phrases by single words, the longest first, and all white
// space by the single spaces at which the analyser splits.
func (a *textAnalyser) joinPhrases(text string) string {
	words := strings.Fields(plainMarks.Replace(strings.ToValidUTF8(text, " ")))
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(words); {
		if i > 0 {
			b.WriteByte(' ')
		}
		phrase, n := a.phraseAt(words[i:])
		if n == 0 {
			phrase, n = words[i], 1
		}
		b.WriteString(phrase)
		i += n
	}
	return b.String()
}

// phraseAt returns the longest phrase at the beginning of words, as one word with the
// punctuation that follows, and the number of words that it covers; 0 without a phrase. A
// phrase does not cross a comma or a full stop.
func (a *textAnalyser) phraseAt(words []string) (phrase string, n int) {
	joined := ""
	for i, w := range words[:min(a.longest, len(words))] {
		core := strings.TrimLeftFunc(w, unicode.IsPunct)
		if i > 0 {
			if len(core) < len(w) {
				break
			}
			joined += "_"
		}
		bare := strings.TrimRightFunc(core, unicode.IsPunct)
		joined += joinWords(bare)
		if a.phrases[joined] {
			phrase, n = joined+core[len(bare):], i+1
		}
		if len(bare) < len(core) {
			break
		}
	}
	return phrase, n
}

// joinWords returns a phrase as one word: lower case, with "_" for spaces and hyphens.
func joinWords(s string) string {
	return underscores.Replace(strings.ToLower(s))
}

// cut returns at most n bytes of the beginning of s, without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// tokens returns the words of s in lower case, without punctuation.
func tokens(s string) []string {
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return strings.FieldsFunc(strings.ToLower(s), separates)
}
