package content

import (
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"
)

//go:embed templates
var templateFiles embed.FS

// templates are those of the strategies, by file name. pick and its like are replaced
// for each text.
var templates = template.Must(template.New("").Funcs(functions(nil)).ParseFS(templateFiles, "templates/*.tmpl"))

// page is what templates read.
type page struct {
	Keyword  noun // what the text shall be found by; the subject, where one has the words of the other and it is longer
	Subject  noun
	Aside    bool   // they have little to do with each other
	Title    string // of the page, not escaped
	Summary  string // of the text, as meta description, not escaped
	Features []feature
	Many     bool     // so many features that the text must be short
	Related  []string // phrases beside keyword, subject and features
	Slug     string
	Locale   string
}

// feature is one with what it is good for.
type feature struct{ Name, Benefit string }

const (
	// manyFeatures is how many leave room for more words beside them.
	manyFeatures = 9
	// generatorStream is the second half of a generator's seed.
	generatorStream = 0x5eed
	// relatedInText is how many related phrases a text names.
	relatedInText = 3
)

// seedOf returns a number that equal requests share.
func seedOf(r *Request) uint64 {
	h := fnv.New64a()
	encoded, _ := json.Marshal(r) // texts can always be encoded
	_, _ = h.Write(encoded)
	return h.Sum64()
}

// compose writes a text by the template of the strategy.
func compose(r *Request) (string, error) {
	draw := rand.New(rand.NewPCG(seedOf(r), generatorStream))
	return render(r.Strategy, draw, newPage(r, draw))
}

// render fills the template of a strategy. draw is nil for one that picks nothing.
func render(strategy string, draw *rand.Rand, p *page) (string, error) {
	t, err := templates.Clone()
	if err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	var b strings.Builder
	if err := t.Funcs(functions(draw)).ExecuteTemplate(&b, strategy+".tmpl", p); err != nil {
		return "", fmt.Errorf("write content: %w", err)
	}
	return emptyLines.ReplaceAllString(strings.TrimSpace(b.String()), "\n\n") + "\n", nil
}

// emptyLines are more of them than one.
var emptyLines = regexp.MustCompile(`\n{3,}`)

// functions are what templates call. draw decides between variants.
func functions(draw *rand.Rand) template.FuncMap {
	return template.FuncMap{
		// pick returns one of its arguments.
		"pick":  func(variants ...string) string { return variants[draw.IntN(len(variants))] },
		"upper": upperFirst,
		"quote": func(s string) (string, error) {
			b, err := json.Marshal(s)
			return string(b), err
		},
		"title":  escapeMarks,
		"escape": html.EscapeString,
		"list":   list,
	}
}

// newPage returns what a template needs of a request.
func newPage(r *Request, draw *rand.Rand) *page {
	subject, keyword := strings.TrimSpace(r.Subject), r.Keyword()
	p := &page{Slug: slug(keyword), Locale: locale(r)}
	switch {
	case mentions(subject, keyword):
		keyword = subject
	case mentions(keyword, subject):
		subject = keyword
	default:
		p.Aside = true
	}
	p.Keyword, p.Subject = nounOf(keyword), nounOf(subject)
	named := features(r)
	p.Many = len(named) > manyFeatures
	p.Features = withBenefits(named, draw)
	for _, name := range related(r) {
		known := slices.ContainsFunc(append([]string{keyword, subject}, named...), func(k string) bool { return mentions(k, name) || mentions(name, k) })
		if len(p.Related) < relatedInText && !known {
			p.Related = append(p.Related, escapeMarks(name))
		}
	}
	p.Title, p.Summary = title(r, p, draw), summary(r, keyword, draw)
	return p
}

const (
	minTitle, maxTitle             = 30, 60
	minDescription, maxDescription = 70, 158
)

// title returns the title of a page: of the forms that fit, one is drawn.
func title(r *Request, p *page, draw *rand.Rand) string {
	forms := []string{": A Plain Guide to Getting Started", ": What to Know Before You Decide", ": What to Check and What to Skip", ": A Short and Plain Guide",
		": Clear Answers, Step by Step", ": What Matters Most", ": A Plain Guide", ": A Guide", ""}
	short := titleCase(r.Keyword())
	names := []string{titleCase(strings.ReplaceAll(r.Subject, "_", " ")), short}
	if p.Aside {
		names = []string{short + " and " + names[0], short}
	} else if !mentions(names[0], r.Keyword()) {
		names = names[1:]
	}
	for _, name := range names {
		var fitting []string
		for _, form := range forms {
			if n := utf8.RuneCountInString(name + form); minTitle <= n && n <= maxTitle && (form != "" || r.Strategy == MetaTags) {
				fitting = append(fitting, name+form)
			}
		}
		if len(fitting) > 0 {
			return fitting[draw.IntN(len(fitting))]
		}
	}
	return short
}

// summary returns a description of a page: of the forms that fit, one is drawn.
func summary(r *Request, keyword string, draw *rand.Rand) string {
	forms := []string{
		"Your plain guide to %s: what to check first, what to ask, which mistakes to avoid and how to take the next step.",
		"New to %s? See what matters, how to compare your choices and what to do next, in short and plain words.",
		"Thinking about %s? Find out what to look for, what to leave out and how to decide with less effort.",
		"What to know about %s: the key points, common mistakes and a short checklist for your next step.",
		"Questions about %s? Here is what to check, what to ask and what to do next.",
		"%s: what to check, what to ask, what to do.",
	}
	for _, name := range []string{keyword, r.Keyword()} {
		n := nounOf(name)
		var fitting []string
		for i, form := range forms {
			inside := n.A
			if strings.HasPrefix(form, "%s") {
				inside = n.Bare
			}
			s := upperFirst(fmt.Sprintf(form, unescapeMarks(inside)))
			if i == len(forms)-1 && len(fitting) > 0 {
				break // only where nothing else fits
			}
			if l := utf8.RuneCountInString(s); minDescription <= l && l <= maxDescription {
				fitting = append(fitting, s)
			}
		}
		if len(fitting) > 0 {
			return fitting[draw.IntN(len(fitting))]
		}
	}
	return upperFirst(r.Keyword())
}

// escapeMarks makes a foreign text stand in Markdown as it is.
func escapeMarks(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, "`", "\\`", `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`, `#`, `\#`).Replace(s)
}

// unescapeMarks is the inverse of escapeMarks.
func unescapeMarks(s string) string { return plain(s) }

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
