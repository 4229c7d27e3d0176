package content

import (
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// article is a text as the checks read it.
type article struct {
	title       string
	description string // of the front matter
	headings    []string
	// prose are the paragraphs and the items of lists in their order, without markup.
	prose []string
}

// readMarkdown reads front matter and CommonMark. The first heading of level 1 is the
// title; code and HTML blocks are left out. Every string is valid Markdown.
func readMarkdown(s string) article {
	var a article
	source := []byte(a.readFrontMatter(strings.ReplaceAll(s, "\r\n", "\n")))
	document := goldmark.DefaultParser().Parse(text.NewReader(source))
	// The walk returns an error only if its function does.
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if heading := inlineText(n, source); n.Level == 1 && a.title == "" {
				a.title = heading
			} else {
				a.headings = append(a.headings, heading)
			}
		case *ast.Paragraph, *ast.TextBlock:
			a.prose = append(a.prose, inlineText(n, source))
		default:
			return ast.WalkContinue, nil
		}
		return ast.WalkSkipChildren, nil
	})
	return a
}

// readFrontMatter takes the description from the front matter and returns the text after
// it.
func (a *article) readFrontMatter(s string) string {
	const fence = "---"
	first, rest, _ := strings.Cut(s, "\n")
	if strings.TrimSpace(first) != fence {
		return s
	}
	description := ""
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		line = strings.TrimSpace(line)
		if line == fence {
			a.description = description
			return rest
		}
		if value, ok := strings.CutPrefix(line, "description:"); ok {
			description = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return s // without a second fence it is no front matter
}

// inlineText returns the text of a block without markup. Entities stay as they are.
func inlineText(block ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(block, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(source)
			if n.Parent().Kind() != ast.KindCodeSpan {
				value = util.UnescapePunctuations(value)
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}
