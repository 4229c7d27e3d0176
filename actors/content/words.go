package content

import (
	"embed"
	"math/rand/v2"
	"slices"
	"strings"
)

//go:embed words/*.txt
var wordFiles embed.FS

// phrases are the building blocks of texts by kind of subject, then by section. A file
// holds the phrases of a kind; "[name]" begins a section; each line of it is one to three
// sentences, in which names in braces stand for the subject (see noun.replacer).
//
// The lines of opening, close and the sections that end in _lead, except check_lead,
// contain the keyword once; other lines of a blog post except headings do not contain it.
// The keyword density therefore does not depend on what is drawn.
var phrases = func() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, kind := range []string{kindProduct, kindFood, kindTech, kindPractice, kindTask, kindTopic, "common"} {
		all[kind] = map[string][]string{}
		for _, s := range readSections("words/" + kind + ".txt") {
			all[kind][s.name] = s.lines
		}
	}
	return all
}()

// section is a section of a file of phrases.
type section struct {
	name  string
	lines []string
}

// readSections parses a file of phrases.
func readSections(file string) []section {
	text, err := wordFiles.ReadFile(file)
	if err != nil { // it is embedded
		panic("read words: " + err.Error())
	}
	var all []section
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch name, found := strings.CutPrefix(line, "["); {
		case line == "" || strings.HasPrefix(line, "#"):
		case found:
			all = append(all, section{name: strings.TrimSuffix(name, "]")})
		default:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// drawer draws phrases for one text. A section is repeated only after all of it was
// drawn.
type drawer struct {
	rng  *rand.Rand
	kind string
	noun *strings.Replacer
	left map[string][]string
}

// newDrawer returns the drawer for a request's text.
func newDrawer(r *Request) *drawer {
	about, subject, aside := nouns(r)
	kind := kindOf(r.Subject, r.Features)
	switch {
	case r.Strategy == ProductDescription:
		about = subject
	case aside || kind == kindTopic:
		kind = kindOf(r.Keyword(), nil) // the text is about the keyword
	}
	rng := rand.New(rand.NewPCG(seedOf(r), generatorStream))
	return &drawer{rng: rng, kind: kind, noun: about.replacer(), left: map[string][]string{}}
}

// of returns the lines of a section for the drawer's kind, otherwise those for all kinds.
func (d *drawer) of(name string) []string {
	if own := phrases[d.kind][name]; own != nil {
		return own
	}
	return phrases["common"][name]
}

// template draws a line with its names in braces.
func (d *drawer) template(name string) string {
	left := d.left[name]
	if len(left) == 0 {
		left = slices.Clone(d.of(name))
		d.rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	}
	d.left[name] = left[1:]
	return left[0]
}

// line draws a line and replaces its names in braces.
func (d *drawer) line(name string) string { return upperFirst(d.noun.Replace(d.template(name))) }

// lines draws n different lines, or as many as the section has left.
func (d *drawer) lines(name string, n int) []string {
	if left, begun := d.left[name]; begun {
		n = min(n, len(left))
	} else {
		n = min(n, len(d.of(name)))
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.line(name)
	}
	return list
}

// all returns the lines of a section in random order, with their names in braces. "common
// x" is section x for all kinds.
func (d *drawer) all(name string) []string {
	lines := d.of(name)
	if common, ok := strings.CutPrefix(name, "common "); ok {
		lines = phrases["common"][common]
	}
	lines = slices.Clone(lines)
	d.rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// about draws a line and replaces {f} by a feature or a term.
func (d *drawer) about(name, what string) string {
	return upperFirst(strings.ReplaceAll(d.template(name), "{f}", what))
}
