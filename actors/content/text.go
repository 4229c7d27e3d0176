package content

import (
	"slices"
	"strings"
	"unicode"
)

// text returns the prose, one paragraph per line.
func (a *article) text() string { return strings.Join(a.prose, "\n") }

var apostrophes = strings.NewReplacer("'", "", "’", "")

// tokens returns the words of s in lower case: runs of letters and digits, ignoring
// apostrophes.
func tokens(s string) []string {
	s = apostrophes.Replace(strings.ToLower(s))
	return strings.FieldsFunc(s, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c)
	})
}

// set returns the set of some words.
func set(words []string) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[w] = true
	}
	return m
}

// countPhrase returns how often phrase occurs in the words of a text, without overlaps.
func countPhrase(text, phrase []string) int {
	if len(phrase) == 0 {
		return 0
	}
	n := 0
	for i := 0; i+len(phrase) <= len(text); {
		if slices.Equal(text[i:i+len(phrase)], phrase) {
			n++
			i += len(phrase)
		} else {
			i++
		}
	}
	return n
}

// mentions reports whether a text contains a phrase. A phrase without letters and digits
// is compared literally.
func mentions(text, phrase string) bool {
	words := tokens(phrase)
	if len(words) == 0 {
		return strings.Contains(text, strings.TrimSpace(phrase))
	}
	return countPhrase(tokens(text), words) > 0
}

// abbreviations do not end a sentence although they are followed by a full stop.
var abbreviations = strings.Fields("dr mr mrs ms st vs no inc ltd co e.g i.e etc approx prof jr sr")

// closing are marks that belong to the sentence before them.
const closing = `"'”’)`

// sentences splits a paragraph after full stops, question and exclamation marks that are
// followed by a space or the end.
func sentences(paragraph string) []string {
	var all []string
	runes := []rune(paragraph)
	start := 0
	for i, c := range runes {
		if c != '.' && c != '!' && c != '?' && c != '…' {
			continue
		}
		if i+1 < len(runes) && !unicode.IsSpace(runes[i+1]) && !strings.ContainsRune(closing, runes[i+1]) {
			continue
		}
		words := strings.Fields(string(runes[start:i]))
		if c == '.' && i+1 < len(runes) && len(words) > 0 &&
			slices.Contains(abbreviations, strings.ToLower(strings.TrimLeft(words[len(words)-1], `("'`))) {
			continue
		}
		end := i + 1
		for end < len(runes) && strings.ContainsRune(closing, runes[end]) {
			end++
		}
		if s := strings.TrimSpace(string(runes[start:end])); s != "" {
			all = append(all, s)
		}
		start = end
	}
	if s := strings.TrimSpace(string(runes[start:])); len(tokens(s)) > 0 {
		all = append(all, s)
	}
	return all
}

// sentences returns the sentences of all paragraphs.
func (a *article) sentences() []string {
	var all []string
	for _, p := range a.prose {
		all = append(all, sentences(p)...)
	}
	return all
}

// readingEase returns the Flesch reading ease: above 60 for plain English, below 30 for
// difficult texts; 0 for a text without words.
func (a *article) readingEase() float64 {
	words, syllables, count := 0, 0, 0
	for _, s := range a.sentences() {
		in := tokens(s)
		if len(in) == 0 {
			continue
		}
		count++
		words += len(in)
		for _, w := range in {
			syllables += syllablesOf(w)
		}
	}
	if words == 0 {
		return 0
	}
	return 206.835 - 1.015*float64(words)/float64(count) - 84.6*float64(syllables)/float64(words)
}

// syllablesOf estimates the number of syllables of an English word in lower case: its
// groups of vowels, except silent ones at the end, and at least 1.
func syllablesOf(word string) int {
	n := 0
	before := false
	for _, c := range word {
		vowel := strings.ContainsRune("aeiouyáàâäéèêëíìîïóòôöúùûü", c)
		if vowel && !before {
			n++
		}
		before = vowel
	}
	if n > 1 && silentEnd(word) {
		n--
	}
	return max(n, 1)
}

// silentEnd reports whether the last group of vowels of a word is silent.
func silentEnd(w string) bool {
	last := len(w) - 1
	consonantBefore := func(i int) bool { return i > 0 && !strings.ContainsRune("aeiouy", rune(w[i-1])) }
	switch {
	case w[last] == 'e': // "make", but "table"
		return consonantBefore(last) && !(w[last-1] == 'l' && last > 1 && consonantBefore(last-1))
	case strings.HasSuffix(w, "ed"): // "used", but "wanted"
		return consonantBefore(last-1) && !strings.ContainsRune("td", rune(w[last-2]))
	case strings.HasSuffix(w, "es"): // "takes", but "boxes"
		return consonantBefore(last-1) && !strings.ContainsRune("sxzcgh", rune(w[last-2]))
	}
	return false
}
