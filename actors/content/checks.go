package content

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// check is one measurable property of a good text.
type check struct {
	name   string
	weight float64 // relative to the other checks of the strategy
	// test returns the measured value, a number, and whether the text passes.
	test func(s *subject) (value any, ok bool)
}

// checks are those of each strategy, in the order of their display. The confidence is the
// sum of the weights of the passed ones over the sum of all: 17 for a blog post, 13 for a
// product description, 14 for meta tags. Indispensable properties weigh 3, those that
// readers and search engines notice first 2, the others 1. A changed bound or weight
// changes what the confidence of a signal means; deploy/decisions/0017-checks-of-texts.md
// describes them to clients.
var checks = map[string][]check{
	BlogPost: {
		{"keyword_in_title", 2, keywordIn(func(s *subject) string { return s.title })},
		{"keyword_in_opening", 2, keywordInOpening},
		{"keyword_in_heading", 1, keywordInHeading},
		{"word_count", 2, wordsBetween(600, 1800)},
		{"heading_count", 1, headingCount},
		{"reading_ease", 2, readingEase},
		{"keyword_density", 2, keywordDensity},
		{"sentence_length", 1, sentenceLength},
		{"meta_description", 1, metaDescription},
		{subjectMatter, 3, shareOfSubject},
	},
	ProductDescription: {
		{"word_count", 2, wordsBetween(80, 300)},
		{"features_named", 3, featuresNamed},
		{"keyword_in_first_sentence", 2, keywordInFirstSentence},
		{"no_new_claims", 3, noNewClaims},
		{subjectMatter, 3, shareOfSubject},
	},
	MetaTags: {
		{"title_length", 2, lengthBetween(minTitle, maxTitle, func(s *subject) string { return s.tags.title })},
		{"description_length", 2, lengthBetween(minDescription, maxDescription,
			func(s *subject) string { return s.tags.description })},
		{"keyword_in_title", 2, keywordIn(func(s *subject) string { return s.tags.title })},
		{"keyword_in_description", 2, keywordIn(func(s *subject) string { return s.tags.description })},
		{"no_duplicate_tags", 1, noDuplicateTags},
		{"addresses_absolute", 1, addressesAbsolute},
		{"open_graph_present", 1, openGraphPresent},
		{subjectMatter, 3, shareOfSubject},
	},
}

// The bounds of the checks.
const (
	openingWords           = 100
	minHeadings            = 3
	minReadingEase         = 50.0
	minDensity, maxDensity = 0.5, 2.5 // percent
	maxSentenceWords       = 40
	minSubjectShare        = 0.4
)

// subjectMatter is the check by which a text on its subject differs from a frame to be filled in.
const subjectMatter = "subject_matter"

// subject is a text with its request.
type subject struct {
	r *Request
	article
	tags tags // of meta_tags
}

// report is the result of the checks.
type report struct {
	names  []string
	failed []string
	values map[string]any
	share  float64 // weight of the passed checks over that of all: 0 to 1, 4 decimals
}

// examine runs the checks on a text.
func examine(r *Request, content string) report {
	s := &subject{r: r}
	if r.Strategy == MetaTags {
		s.tags = readTags(content)
	} else {
		s.article = readMarkdown(content)
	}
	p := report{values: map[string]any{}, failed: []string{}}
	passed, all := 0.0, 0.0
	for _, c := range checks[r.Strategy] {
		value, ok := c.test(s)
		p.names = append(p.names, c.name)
		p.values[c.name] = value
		all += c.weight
		if ok {
			passed += c.weight
		} else {
			p.failed = append(p.failed, c.name)
		}
	}
	p.share = rounded(passed/all, 4)
	return p
}

// number returns 1 for true and 0 for false.
func number(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// keywordIn requires the keyword in a part of the text. Its value is 1 if it is there.
func keywordIn(part func(*subject) string) func(*subject) (any, bool) {
	return func(s *subject) (any, bool) {
		ok := mentions(part(s), s.r.Keyword())
		return number(ok), ok
	}
}

// keywordInOpening requires the keyword within the first words of the prose. Its value is
// 1 if it is there.
func keywordInOpening(s *subject) (any, bool) {
	words := tokens(s.text())
	keyword := tokens(s.r.Keyword())
	ok := countPhrase(words[:min(len(words), openingWords)], keyword) > 0
	if len(keyword) == 0 {
		ok = mentions(s.text(), s.r.Keyword())
	}
	return number(ok), ok
}

// keywordInHeading counts the headings below the title with the keyword.
func keywordInHeading(s *subject) (any, bool) {
	n := 0
	for _, h := range s.headings {
		n += number(mentions(h, s.r.Keyword()))
	}
	return n, n > 0
}

// wordsBetween counts the words of the prose.
func wordsBetween(low, high int) func(*subject) (any, bool) {
	return func(s *subject) (any, bool) {
		n := len(tokens(s.text()))
		return n, low <= n && n <= high
	}
}

// headingCount counts the headings below the title.
func headingCount(s *subject) (any, bool) { return len(s.headings), len(s.headings) >= minHeadings }

// readingEase is the Flesch reading ease, with 1 decimal.
func readingEase(s *subject) (any, bool) {
	ease := s.article.readingEase()
	return rounded(ease, 1), ease >= minReadingEase
}

// keywordDensity is the number of keywords per 100 words of prose, with 2 decimals.
func keywordDensity(s *subject) (any, bool) {
	words, keyword := tokens(s.text()), tokens(s.r.Keyword())
	n := countPhrase(words, keyword)
	if len(keyword) == 0 {
		n = strings.Count(s.text(), s.r.Keyword())
	}
	density := 0.0
	if len(words) > 0 {
		density = 100 * float64(n) / float64(len(words))
	}
	return rounded(density, 2), minDensity <= density && density <= maxDensity
}

// sentenceLength is the number of words of the longest sentence.
func sentenceLength(s *subject) (any, bool) {
	longest := 0
	for _, sentence := range s.sentences() {
		longest = max(longest, len(tokens(sentence)))
	}
	return longest, longest > 0 && longest <= maxSentenceWords
}

// metaDescription is the length of the description in the front matter.
func metaDescription(s *subject) (any, bool) {
	n := utf8.RuneCountInString(s.description)
	return n, n > 0
}

// featuresNamed counts the features that the text names; all are required.
func featuresNamed(s *subject) (any, bool) {
	n := 0
	for _, f := range s.r.Features {
		n += number(mentions(s.text(), f))
	}
	return n, n == len(s.r.Features)
}

// keywordInFirstSentence is 1 if the first sentence contains the keyword.
func keywordInFirstSentence(s *subject) (any, bool) {
	all := s.sentences()
	ok := len(all) > 0 && mentions(all[0], s.r.Keyword())
	return number(ok), ok
}

// noNewClaims counts the claims and the benefits that are not in the request.
func noNewClaims(s *subject) (any, bool) {
	n := len(newClaims(s.r, s.title+"\n"+s.text()))
	for _, sentence := range s.sentences() {
		n += newBenefits(s.r, sentence)
	}
	return n, n == 0
}

// shareOfSubject is the share, with 2 decimals, of the words on the subject among the different words of the text,
// stop words aside. Words of the subject, of the keywords and of the templates are not on the subject. Nor are those of
// the features in a blog post, where the built-in writer only asks about them.
func shareOfSubject(s *subject) (any, bool) {
	known := slices.Concat([]string{s.r.Subject}, s.r.Keywords)
	if s.r.Strategy == BlogPost {
		known = append(known, s.r.Features...)
	}
	given, seen := set(tokens(strings.Join(known, " "))), map[string]bool{}
	n := 0
	for _, w := range tokens(s.text() + "\n" + s.tags.title + "\n" + s.tags.description) {
		if !seen[w] && !stopWords[w] {
			seen[w] = true
			n += number(!templateWords[w] && !given[w])
		}
	}
	share := float64(n) / float64(max(len(seen), 1))
	return rounded(share, 2), share >= minSubjectShare
}

// lengthBetween counts the characters of a part of the text.
func lengthBetween(low, high int, part func(*subject) string) func(*subject) (any, bool) {
	return func(s *subject) (any, bool) {
		n := utf8.RuneCountInString(part(s))
		return n, low <= n && n <= high
	}
}

// noDuplicateTags counts the repeated tags.
func noDuplicateTags(s *subject) (any, bool) { return s.tags.duplicates, s.tags.duplicates == 0 }

// addressesAbsolute counts the addresses of the page that are not absolute. They may be absent.
func addressesAbsolute(s *subject) (any, bool) {
	n := 0
	for _, address := range s.tags.addresses {
		u, err := url.Parse(address)
		n += number(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "")
	}
	return n, n == 0
}

// openGraph are the properties that a page must have.
var openGraph = []string{"og:title", "og:description", "og:type"}

// openGraphPresent counts the properties of openGraph that are present.
func openGraphPresent(s *subject) (any, bool) {
	n := 0
	for _, name := range openGraph {
		n += number(s.tags.named[name] != "")
	}
	return n, n == len(openGraph)
}
