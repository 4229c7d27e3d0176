package content

import (
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

// templates are those of the strategies, by file name. Their functions that draw are
// replaced for each text.
var templates = template.Must(template.New("").Funcs(functions(nil)).ParseFS(templateFiles, "templates/*.tmpl"))

// page is the data of a template. Texts in it are escaped for Markdown, except Title,
// Summary and Tags.
type page struct {
	// Keyword is the phrase to be found by. If Keyword or Subject contains the other, the
	// longer one stands for both.
	Keyword  noun
	Subject  noun
	Aside    bool // Keyword and Subject have little in common
	Title    string
	Summary  string   // as meta description
	Tags     []string // the key phrases
	Features []feature
	Names    string   // of the features, if one sentence has room for them
	Wishes   string   // the wishes that the features fulfil
	Many     bool     // the features leave little room for other phrases
	Full     bool     // the features leave no room for other phrases
	Terms    []string // the other keywords
	Slug     string
	Locale   string

	Criteria, Questions, Pictures int // the number of lines beside those of features
}

const (
	// generatorStream is the second half of a generator's seed.
	generatorStream = 0x5eed
	// manyFeatures is the number of features that leaves little room in a blog post,
	// manyWords that of words of features and benefits in a product description.
	manyFeatures, manyWords = 8, 130
	// maxNames and maxNameWords limit the features in the first sentence of a product
	// description and their words.
	maxNames, maxNameWords = 5, 20
	// maxTerms and maxTermWords limit the other keywords in a product description.
	maxTerms, maxTermWords = 3, 12
)

// seedOf returns the seed of a request, the same for equal requests.
func seedOf(r *Request) uint64 {
	h := fnv.New64a()
	encoded, _ := json.Marshal(r) // texts can always be encoded
	_, _ = h.Write(encoded)
	return h.Sum64()
}

// compose writes a text by the template of the strategy.
func compose(r *Request) (string, error) {
	d := newDrawer(r)
	return render(r.Strategy, d, newPage(r, d))
}

// render executes the template of a strategy. d may be nil if the template draws nothing.
func render(strategy string, d *drawer, p *page) (string, error) {
	t, err := templates.Clone()
	if err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	var b strings.Builder
	if err := t.Funcs(functions(d)).ExecuteTemplate(&b, strategy+".tmpl", p); err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	return emptyLines.ReplaceAllString(strings.TrimSpace(b.String()), "\n\n") + "\n", nil
}

// emptyLines matches more than one empty line.
var emptyLines = regexp.MustCompile(`\n{3,}`)

// functions are the functions of templates.
func functions(d *drawer) template.FuncMap {
	return template.FuncMap{
		"line":  d.line,
		"lines": d.lines,
		"about": d.about,
		// pick returns one of its arguments.
		"pick":  func(variants ...string) string { return variants[d.rng.IntN(len(variants))] },
		"upper": upperFirst,
		"quote": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
		"escapeMarks": escapeMarks,
		"escape":      html.EscapeString,
		"list":        list,
	}
}

// newPage returns the data of a template for a request.
func newPage(r *Request, d *drawer) *page {
	p := &page{Slug: slug(r.Keyword()), Locale: locale(r), Tags: related(r)}
	p.Keyword, p.Subject, p.Aside = nouns(r)
	var words int
	p.Features, words = describeFeatures(r.Features, d)
	p.Many = len(p.Features) > manyFeatures
	if r.Strategy == ProductDescription {
		p.Many, p.Full = words > manyWords, words > maxFeatureWords
	}
	p.Criteria, p.Questions, p.Pictures = max(2, 4-len(p.Features)), max(2, 5-len(p.Features)), 1
	if len(p.Features) < 2 {
		p.Pictures = 2
	}
	if names := list(r.Features); len(p.Features) <= maxNames && len(tokens(names)) <= maxNameWords {
		p.Names = escapeMarks(names)
	}
	p.Wishes = wishes(p.Features)
	for i, k := range r.Keywords {
		known := i == 0 || slices.ContainsFunc(append([]string{r.Subject}, r.Features...),
			func(s string) bool { return mentions(s, k) })
		if !known {
			p.Terms = append(p.Terms, escapeMarks(k))
		}
	}
	if r.Strategy == ProductDescription {
		p.Terms = p.Terms[:min(len(p.Terms), maxTerms)]
		if len(tokens(list(p.Terms))) > maxTermWords {
			p.Terms = nil
		}
	}
	p.Title, p.Summary = title(r, p, d), summary(r, p, d)
	return p
}

// nouns returns the keyword and the subject of a text as nouns, and whether they have
// little in common. If one contains the other, the longer one stands for both.
func nouns(r *Request) (keyword, subject noun, aside bool) {
	k, s := r.Keyword(), r.Subject
	switch {
	case mentions(s, k):
		k = s
	case mentions(k, s):
		s = k
	default:
		aside = true
	}
	english := inEnglish(r)
	return nounOf(k, english), nounOf(s, english), aside
}

// wishes joins the first two wishes.
func wishes(features []feature) string {
	var all []string
	for _, f := range features {
		if f.Wish != "" && len(all) < 2 {
			all = append(all, f.Wish)
		}
	}
	return list(all)
}

// escapeMarks escapes the characters that have a meaning in Markdown.
func escapeMarks(s string) string { return escaper.Replace(s) }

// unescapeMarks is the inverse of escapeMarks.
func unescapeMarks(s string) string { return unescaper.Replace(s) }

var escaper, unescaper = func() (*strings.Replacer, *strings.Replacer) {
	var escaped, plain []string
	for _, mark := range "\\*_`[]<>#" {
		m := string(mark)
		escaped, plain = append(escaped, m, `\`+m), append(plain, `\`+m, m)
	}
	return strings.NewReplacer(escaped...), strings.NewReplacer(plain...)
}()

// list returns "a, b and c".
func list(all []string) string {
	switch n := len(all); n {
	case 0:
		return ""
	case 1:
		return all[0]
	default:
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
}
