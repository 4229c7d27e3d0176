package pages

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// streamPage is what the page on the stream shows: asyncapi.yaml for people.
type streamPage struct {
	Text  []streamParagraph
	Sides []streamSide
	Codes []streamCode
}

// streamParagraph is a paragraph of the description, with the bold words at its beginning as title.
type streamParagraph struct {
	Title string
	Parts []streamText
}

// streamText is a part of a paragraph.
type streamText struct {
	Text string
	Code bool
}

// streamSide has the messages that one side sends.
type streamSide struct {
	Title    string
	Messages []streamMessage
}

type streamMessage struct {
	Name, Title, Summary string
	Examples             []string // JSON
}

type streamCode struct {
	Code                       int
	Reason, Description, Retry string
}

// newStreamPage makes the page of the description, so that it says the same.
func newStreamPage(asyncAPI []byte) streamPage {
	var doc struct {
		Info       struct{ Description string }
		Components struct{ Messages yaml.Node }
		Codes      []streamCode `yaml:"x-close-codes"`
	}
	if err := yaml.Unmarshal(asyncAPI, &doc); err != nil {
		panic("read asyncapi.yaml: " + err.Error())
	}
	page := streamPage{Text: paragraphs(doc.Info.Description), Codes: doc.Codes,
		Sides: []streamSide{{Title: "From the client"}, {Title: "From the service"}}}
	for i, node := range doc.Components.Messages.Content {
		if i%2 == 0 {
			continue // the key
		}
		var m struct {
			Name, Title, Summary string
			Tags                 []struct{ Name string }
			Examples             []struct{ Payload yaml.Node }
		}
		if err := node.Decode(&m); err != nil {
			panic("read asyncapi.yaml: " + err.Error())
		}
		shown := streamMessage{Name: m.Name, Title: m.Title, Summary: m.Summary}
		for _, e := range m.Examples {
			shown.Examples = append(shown.Examples, indented(&e.Payload))
		}
		side := &page.Sides[0]
		if len(m.Tags) > 0 && m.Tags[0].Name == "server" {
			side = &page.Sides[1]
		}
		side.Messages = append(side.Messages, shown)
	}
	return page
}

// paragraphs reads the little Markdown that descriptions have: paragraphs, bold words in front, code.
func paragraphs(text string) []streamParagraph {
	var list []streamParagraph
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var p streamParagraph
		if rest, ok := strings.CutPrefix(block, "**"); ok {
			p.Title, block, _ = strings.Cut(rest, "**")
		}
		for i, part := range strings.Split(strings.TrimSpace(block), "`") {
			p.Parts = append(p.Parts, streamText{part, i%2 == 1})
		}
		list = append(list, p)
	}
	return list
}

// indented returns a value of the description as JSON, with its members in their order.
func indented(n *yaml.Node) string {
	var b bytes.Buffer
	if err := json.Indent(&b, appendJSON(nil, n), "", "  "); err != nil {
		panic("encode asyncapi.yaml: " + err.Error())
	}
	return b.String()
}

func appendJSON(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.AliasNode:
		return appendJSON(b, n.Alias)
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(append(appendJSON(b, n.Content[i]), ':'), n.Content[i+1])
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	default: // a scalar
	}
	var v any
	if err := n.Decode(&v); err != nil {
		panic("read asyncapi.yaml: " + err.Error())
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic("encode asyncapi.yaml: " + err.Error())
	}
	return append(b, text...)
}
