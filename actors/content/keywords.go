package content

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxPhraseWords limits an extracted phrase: longer ones are sentences.
	maxPhraseWords = 4
	// maxKeywords is the number of phrases that are shown.
	maxKeywords = 8
)

// stopWords separate phrases.
var stopWords = set(strings.Fields(`a about above after again all also an and any are as at be because been before
		being below between both but by can could did do does doing down during each few for from further get had has
		have having he her here hers him his how i if in into is it its just let me more most my no nor not now of
		off on once only or other our out over own per same she should so some such than that the their them then
		there these they this those through to too under until up us very was we were what when where which while who
		whom why will with without would you your yours`))

// phrase is a candidate with its score.
type phrase struct {
	text  string
	score float64
}

// extract returns the key phrases of a text, the most important first, by RAKE: the text
// is split into candidates at stop words and punctuation; the score of a word is its
// degree (the number of words in its candidates, itself included) divided by its
// frequency; the score of a candidate is the sum over its words.
func extract(text string) []phrase {
	candidates := candidatesOf(text)
	frequency, degree := map[string]int{}, map[string]int{}
	for _, c := range candidates {
		for _, w := range c {
			frequency[w]++
			degree[w] += len(c)
		}
	}
	var found []phrase
	seen := map[string]bool{}
	for _, c := range candidates {
		name := strings.Join(c, " ")
		if seen[name] || len(c) > maxPhraseWords {
			continue
		}
		seen[name] = true
		score := 0.0
		for _, w := range c {
			score += float64(degree[w]) / float64(frequency[w])
		}
		found = append(found, phrase{name, score})
	}
	slices.SortStableFunc(found, func(a, b phrase) int { return cmp.Compare(b.score, a.score) })
	return found
}

// candidatesOf splits a text at stop words and at every character that separates.
func candidatesOf(text string) [][]string {
	var all [][]string
	runes := []rune(strings.ToLower(text))
	var parts []string
	start := 0
	for i := range runes {
		if separates(runes, i) {
			parts = append(parts, string(runes[start:i]))
			start = i + 1
		}
	}
	parts = append(parts, string(runes[start:]))
	for _, part := range parts {
		var open []string
		for _, w := range strings.Fields(part) {
			if w = strings.Trim(w, "-'"); w == "" {
				continue
			}
			if !stopWords[w] {
				open = append(open, w)
				continue
			}
			if open != nil {
				all = append(all, open)
			}
			open = nil
		}
		if open != nil {
			all = append(all, open)
		}
	}
	return all
}

// separates reports whether the character at i separates candidates: anything but
// letters, digits, apostrophes, hyphens, spaces and the point within a number.
func separates(text []rune, i int) bool {
	c := text[i]
	if c == '.' || c == ',' {
		return i == 0 || i+1 == len(text) || !unicode.IsDigit(text[i-1]) || !unicode.IsDigit(text[i+1])
	}
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c) && !unicode.IsSpace(c) &&
		!strings.ContainsRune("'-+#", c)
}

// related returns the key phrases of a request, the most important first.
func related(r *Request) []string {
	given := strings.Join(slices.Concat([]string{r.Subject}, r.Keywords, featureNames(r.Features)), ". ")
	names := []string{}
	for _, p := range extract(given) {
		if len(names) < maxKeywords {
			names = append(names, p.text)
		}
	}
	return names
}
