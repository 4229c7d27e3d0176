package content

import (
	"slices"
	"strings"
	"unicode"
)

// claimWords are claims about a product that only its maker can know to be true. A text
// may use them only if the request does.
var claimWords = set(strings.Fields(`best better cheapest fastest strongest lightest quietest safest finest greatest
		leading unbeatable unrivalled unmatched superior premium luxury perfect ideal ultimate revolutionary
		innovative unique exclusive original authentic genuine guaranteed guarantee guarantees warranty certified
		approved tested proven patented award awards winning rated recommended clinically scientifically medical
		healthy healing cures organic natural vegan sustainable recyclable recycled biodegradable ecological
		hypoallergenic nontoxic waterproof fireproof shockproof unbreakable indestructible durable lifetime
		everlasting free discount cheap affordable bestseller popular famous trusted handmade handcrafted imported
		smart wireless rechargeable energy efficient instant instantly always never everyone million thousands
		hundreds`))

// newClaims returns the words of a text that make claims which the request does not:
// numbers and claimWords.
func newClaims(r *Request, text string) []string {
	given := set(tokens(strings.Join(slices.Concat([]string{r.Subject}, r.Keywords, r.Features), " ")))
	var claims []string
	for _, w := range tokens(text) {
		if !given[w] && (claimWords[w] || strings.ContainsFunc(w, unicode.IsDigit)) {
			claims = append(claims, w)
		}
	}
	return claims
}

// benefitPhrases introduce the benefit of a feature.
var benefitPhrases = []string{"so you", "so that", "so your", "lets you", "let you", "helps you", "help you",
	"allows you", "allow you", "gives you", "give you", "makes it easy", "makes it easier", "make it easy",
	"make it easier", "saves you", "save you", "keeps you", "keep you", "keeps your", "keep your"}

// newBenefits returns how many benefits a sentence names beside those of the features that it names in full.
func newBenefits(r *Request, sentence string) int {
	n := countBenefits(sentence)
	for _, f := range r.Features {
		if mentions(sentence, f) {
			n -= countBenefits(f)
		}
	}
	return max(n, 0)
}

// countBenefits returns how many of benefitPhrases a text has.
func countBenefits(s string) int {
	n, words := 0, tokens(s)
	for _, p := range benefitPhrases {
		n += countPhrase(words, tokens(p))
	}
	return n
}
