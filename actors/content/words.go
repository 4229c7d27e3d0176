package content

import (
	"embed"
	"math/rand/v2"
	"slices"
	"strings"
)

//go:embed words/*.txt
var wordFiles embed.FS

// pools are the lines from which texts are put together: by kind of subject, then by
// section. A file is a kind; "[name]" begins a section; each line of it is one to three
// sentences, in which names in braces stand for the subject (see noun.replacer).
//
// The lines of opening, close and the sections that end in _lead, but for check_lead,
// have the keyword once; other lines of a blog post, headings aside, do not have it: so
// how often it comes does not depend on what is drawn.
var pools = func() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, kind := range []string{kindProduct, kindFood, kindTech, kindPractice, kindTask, kindTopic, "common"} {
		all[kind] = map[string][]string{}
		for _, s := range readSections("words/" + kind + ".txt") {
			all[kind][s.name] = s.lines
		}
	}
	return all
}()

// section is one of a file of words.
type section struct {
	name  string
	lines []string
}

// readSections reads a file of words.
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

// drawer draws lines for one text. What a section has left is drawn before anything of
// it is drawn again.
type drawer struct {
	rng  *rand.Rand
	kind string
	noun *strings.Replacer
	left map[string][]string
}

// newDrawer returns the drawer of a request's text.
func newDrawer(r *Request) *drawer {
	about, subject, aside := nouns(r)
	kind := kindOf(r.Subject, r.Features)
	switch {
	case r.Strategy == ProductDescription:
		about = subject
	case aside || kind == kindTopic:
		kind = kindOf(r.Keyword(), nil) // that is what the text is on
	}
	rng := rand.New(rand.NewPCG(seedOf(r), generatorStream))
	return &drawer{rng: rng, kind: kind, noun: about.replacer(), left: map[string][]string{}}
}

// of returns the lines of a section: those of the kind, or else those for all kinds.
func (d *drawer) of(name string) []string {
	if own := pools[d.kind][name]; own != nil {
		return own
	}
	return pools["common"][name]
}

// raw draws a line as it stands in its file.
func (d *drawer) raw(name string) string {
	left := d.left[name]
	if len(left) == 0 {
		left = slices.Clone(d.of(name))
		d.rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	}
	d.left[name] = left[1:]
	return left[0]
}

// line draws a line.
func (d *drawer) line(name string) string { return upperFirst(d.noun.Replace(d.raw(name))) }

// lines draws n lines, or as many as the section has left: no line comes twice.
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

// all returns the lines of a section, as they stand in their file, in an order that is
// drawn. "common x" is section x for all kinds.
func (d *drawer) all(name string) []string {
	lines := d.of(name)
	if common, ok := strings.CutPrefix(name, "common "); ok {
		lines = pools["common"][common]
	}
	lines = slices.Clone(lines)
	d.rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// about draws a line on a feature or a term.
func (d *drawer) about(name, what string) string {
	return upperFirst(strings.ReplaceAll(d.raw(name), "{f}", what))
}
