package content

import (
	"strings"
	"unicode/utf8"
)

// The lengths that the checks of meta_tags require. Titles and descriptions of other texts
// have them where possible.
const (
	minTitle, maxTitle             = 30, 60 // characters
	minDescription, maxDescription = 70, 158
)

// title returns the title of a page, not escaped, out of those that fit: one that names
// features if readers see no more of them, otherwise one for the kind of subject.
func title(r *Request, p *page, d *drawer) string {
	short := titleCase(r.Keyword())
	names := []string{unescapeMarks(p.Keyword.Title), short}
	if p.Aside {
		names[0] = short + " and " + unescapeMarks(p.Subject.Title)
	}
	if r.Strategy == MetaTags {
		for n := len(r.Features); n > 0; n-- {
			if t := colon(names[0]) + " " + titleCase(list(r.Features[:n])); fits(t, minTitle, maxTitle) {
				return t
			}
		}
	}
	for _, name := range names {
		for _, section := range []string{"title", "common title"} {
			for _, form := range d.all(section) {
				t := strings.NewReplacer("{T}:", colon(name), "{T}", name, "{A}",
					titleCase(unescapeMarks(nounOf(name, inEnglish(r)).A))).Replace(form)
				joined := p.Aside && name != short // two nouns, which have no common article
				if fits(t, minTitle, maxTitle) && !(joined && strings.Contains(form, "{A}")) {
					return t
				}
			}
		}
	}
	return short
}

// colon ends the first part of a title, unless it ends in a question mark.
func colon(name string) string {
	if strings.HasSuffix(name, "?") {
		return name
	}
	return name + ":"
}

// summary returns the description of a page, not escaped, out of those that fit: one that
// names features, otherwise one for the kind of subject.
func summary(r *Request, p *page, d *drawer) string {
	long := p.Keyword
	for n := len(r.Features); n > 0; n-- {
		for _, form := range d.all("summary with features") {
			s := describe(form, long, list(r.Features[:n]))
			if fits(s, minDescription, maxDescription) {
				return s
			}
		}
	}
	for _, n := range []noun{long, nounOf(r.Keyword(), inEnglish(r))} {
		for _, section := range []string{"summary", "common summary"} {
			for _, form := range d.all(section) {
				if s := describe(form, n, ""); fits(s, minDescription, maxDescription) {
					return s
				}
			}
		}
	}
	return upperFirst(r.Keyword())
}

// describe fills a form of a description.
func describe(form string, n noun, features string) string {
	return upperFirst(strings.ReplaceAll(unescapeMarks(n.replacer().Replace(form)), "{f}", features))
}

// fits reports whether the length of a text, in characters, is within bounds.
func fits(s string, low, high int) bool {
	n := utf8.RuneCountInString(s)
	return low <= n && n <= high
}
