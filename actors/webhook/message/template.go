package message

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/template"
)

// Template makes a text of an event. It is safe for concurrent use.
type Template struct{ tree *template.Template }

const (
	// maxSteps bounds an execution, which then takes some ten milliseconds at most. The nodes of a template that repeats
	// nothing need at most a third of them.
	maxSteps  = 28_000
	maxReason = 300 // bytes of an error
)

// options are those of templates. They have no functions that make texts of any length.
var options = template.Options{
	Data: "the event", MaxBytes: MaxBytes, MaxSteps: maxSteps,
	Functions: map[string]template.Function{
		"json":    template.JSON,
		"upper":   template.Unary(strings.ToUpper),
		"percent": template.Unary(func(share float64) string { return number(100*share, 1) + " %" }),
		"price":   template.Binary(func(asset string, price float64) string { return assets.PriceText(asset, price) }),
	},
}

// ParseTemplate returns the template with a text. The error names the line and the fault.
func ParseTemplate(text string) (*Template, error) {
	t, err := template.Parse(text, options)
	if err != nil {
		return nil, reason(err)
	}
	return &Template{t}, nil
}

// Execute returns the text for an event, of at most MaxBytes. The error names the line and the fault.
func (t *Template) Execute(event map[string]any) ([]byte, error) {
	text, err := t.tree.Execute(event)
	if err != nil {
		return nil, reason(err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("the template makes no text of this event")
	}
	return text, nil
}

// reason returns an error as a line of at most maxReason bytes.
func reason(err error) error {
	text := oneLine(err.Error())
	if len(text) > maxReason {
		n := maxReason
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return errors.New(text)
}
