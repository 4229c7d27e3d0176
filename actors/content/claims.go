package content

import (
	"slices"
	"strings"
	"unicode"
)

// claimWords are claims about a product that only its maker can know to be true. A text
// may use them only if the request does.
var claimWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`best better cheapest fastest strongest lightest quietest safest finest greatest
		leading unbeatable unrivalled unmatched superior premium luxury perfect ideal ultimate revolutionary
		innovative unique exclusive original authentic genuine guaranteed guarantee guarantees warranty certified
		approved tested proven patented award awards winning rated recommended clinically scientifically medical
		healthy healing cures organic natural vegan sustainable recyclable recycled biodegradable ecological
		hypoallergenic nontoxic waterproof fireproof shockproof unbreakable indestructible durable lifetime
		everlasting free discount cheap affordable bestseller popular famous trusted handmade handcrafted imported
		smart wireless rechargeable energy efficient instant instantly always never everyone million thousands
		hundreds`) {
		m[w] = true
	}
	return m
}()

// newClaims returns the words of a text that make claims which the request does not:
// numbers and claimWords.
func newClaims(r *Request, text string) []string {
	given := map[string]bool{}
	for _, w := range tokens(strings.Join(slices.Concat([]string{r.Subject}, r.Keywords, r.Features), " ")) {
		given[w] = true
	}
	var claims []string
	for _, w := range tokens(text) {
		if !given[w] && (claimWords[w] || strings.ContainsFunc(w, unicode.IsDigit)) {
			claims = append(claims, w)
		}
	}
	return claims
}

// benefitPhrases introduce the benefit of a feature.
var benefitPhrases = func() [][]string {
	var all [][]string
	for _, p := range []string{"so you", "so that", "so your", "you can", "you get", "you will", "youll", "lets you",
		"let you", "helps you", "help you", "allows you", "allow you", "gives you", "give you", "means",
		"makes it easy", "makes it easier", "make it easy", "make it easier", "saves you", "save you", "keeps you",
		"keep you", "keeps your", "keep your", "thanks to", "for you"} {
		all = append(all, tokens(p))
	}
	return all
}()

// hasBenefit reports whether a sentence contains one of benefitPhrases.
func hasBenefit(sentence string) bool {
	words := tokens(sentence)
	return slices.ContainsFunc(benefitPhrases, func(p []string) bool { return countPhrase(words, p) > 0 })
}
