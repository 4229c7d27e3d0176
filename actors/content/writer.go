package content

import (
	"embed"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/template"
)

//go:embed templates
var templateFiles embed.FS

// templates are those of the strategies.
var templates = map[string]*template.Template{
	BlogPost:           parse(BlogPost),
	ProductDescription: parse(ProductDescription),
	MetaTags:           parse(MetaTags),
}

// parse returns the template of a strategy.
func parse(strategy string) *template.Template {
	return template.Must(template.Parse(source(strategy), template.Options{
		Data: "the page",
		Functions: map[string]template.Function{
			"upper":       template.Unary(upperFirst),
			"quote":       template.JSON,
			"escapeMarks": template.Unary(escapeMarks),
			"escape":      template.Unary(html.EscapeString),
		},
	}))
}

// page is the data of a template. Texts in it are escaped for Markdown, except Title, Summary and Tags.
type page struct {
	// Keyword is the phrase to be found by. If Keyword or Subject contains the other, the
	// longer one stands for both.
	Keyword, Subject string
	Aside            bool // Keyword and Subject have little in common
	Title            string
	Summary          string   // as meta description
	Tags             []string // the key phrases
	Features         []string // of the subject, as given
	Names            []string // of the features
	Full             bool     // the features are enough for a product description
	Terms            []string // the other keywords
	Locale           string
}

// minFeatureWords are the words of features with which a product description needs no other phrases.
const minFeatureWords = 60

// The lengths that the checks of meta_tags require. Titles and descriptions of other texts
// have them where possible.
const (
	minTitle, maxTitle             = 30, 60 // characters
	minDescription, maxDescription = 70, 158
)

// source returns the source of the template of a strategy.
func source(strategy string) string {
	text, err := templateFiles.ReadFile("templates/" + strategy + ".tmpl")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// templateWords are the words that the templates hold for any subject.
var templateWords = set(tokens(regexp.MustCompile(`(?s)\{\{.*?\}\}|<[^>]*>`).ReplaceAllString(
	source(BlogPost)+source(ProductDescription)+source(MetaTags), " ")))

// compose writes a text by the template of the strategy.
func compose(r *Request) (string, error) { return render(r.Strategy, newPage(r)) }

// render executes the template of a strategy.
func render(strategy string, p *page) (string, error) {
	data, err := template.Values(p)
	if err != nil {
		return "", fmt.Errorf("encode page: %w", err)
	}
	text, err := templates[strategy].Execute(data)
	if err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	return emptyLines.ReplaceAllString(strings.TrimSpace(string(text)), "\n\n") + "\n", nil
}

// emptyLines matches more than one empty line.
var emptyLines = regexp.MustCompile(`\n{3,}`)

// newPage returns the data of a template for a request.
func newPage(r *Request) *page {
	keyword, subject, aside := names(r)
	p := &page{Locale: locale(r), Tags: related(r), Aside: aside, Keyword: escapeMarks(keyword),
		Subject: escapeMarks(subject), Full: len(tokens(strings.Join(r.Features, " "))) >= minFeatureWords}
	for i, name := range featureNames(r.Features) {
		p.Features, p.Names = append(p.Features, escapeMarks(r.Features[i])), append(p.Names, escapeMarks(name))
	}
	for i, k := range r.Keywords {
		known := i == 0 || slices.ContainsFunc(append([]string{r.Subject}, r.Features...),
			func(s string) bool { return mentions(s, k) })
		if !known {
			p.Terms = append(p.Terms, escapeMarks(k))
		}
	}
	phrases := []string{keyword, withoutEnd(r.Keyword())}
	if aside {
		phrases = []string{keyword + " and " + subject, keyword}
	}
	p.Title, p.Summary = title(phrases), summary(phrases, r.Features)
	return p
}

// names returns the keyword and the subject of a text, and whether they have little in common. If one
// contains the other, the longer one stands for both.
func names(r *Request) (keyword, subject string, aside bool) {
	k, s := withoutEnd(r.Keyword()), withoutEnd(r.Subject)
	switch {
	case mentions(s, k):
		return s, s, false
	case mentions(k, s):
		return k, k, false
	}
	return k, s, true
}

// withoutEnd returns a phrase without the marks that end a sentence.
func withoutEnd(s string) string {
	if t := strings.TrimRight(s, " .,:;!?"); len(tokens(t)) > 0 {
		return t
	}
	return s
}

// title returns the title of a page on the first of some phrases that fits.
func title(phrases []string) string {
	var all []string
	for _, p := range phrases {
		all = append(all, p+": what to know before you start", p)
	}
	return firstFitting(all, minTitle, maxTitle)
}

// summary returns the description of a page on the first of some phrases that fits, with as many features as fit.
func summary(phrases, features []string) string {
	var all []string
	for n := len(features); n > 0; n-- {
		all = append(all, phrases[0]+": "+strings.Join(featureNames(features[:n]), ", ")+
			". What to check, what to ask and where to begin.")
	}
	for _, p := range phrases {
		all = append(all, p+": where to begin, which questions to ask, how to check what you read and what to do next.",
			p+": what to know before you start.", p)
	}
	return firstFitting(all, minDescription, maxDescription)
}

// firstFitting returns the first of texts whose length, in characters, is within bounds, or the last one.
func firstFitting(texts []string, low, high int) string {
	for _, s := range texts {
		if n := utf8.RuneCountInString(s); low <= n && n <= high {
			return upperFirst(s)
		}
	}
	return upperFirst(texts[len(texts)-1])
}

// escapeMarks escapes the characters that have a meaning in Markdown.
func escapeMarks(s string) string { return escaper.Replace(s) }

var escaper = func() *strings.Replacer {
	var escaped []string
	for _, mark := range "\\*_`[]<>#" {
		escaped = append(escaped, string(mark), `\`+string(mark))
	}
	return strings.NewReplacer(escaped...)
}()

// upperFirst returns s with its first letter in upper case, unless its first word has one already, as "iPhone" does.
func upperFirst(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if word != strings.ToLower(word) {
		return s
	}
	for i, c := range s {
		if unicode.IsLetter(c) {
			return s[:i] + string(unicode.ToUpper(c)) + s[i+utf8.RuneLen(c):]
		}
		if unicode.IsDigit(c) {
			break
		}
	}
	return s
}

// featureNames returns features without the benefits that follow them.
func featureNames(features []string) []string {
	names := make([]string, len(features))
	for i, f := range features {
		name, _, _ := strings.Cut(f, ", so ")
		names[i] = withoutEnd(name)
	}
	return names
}
