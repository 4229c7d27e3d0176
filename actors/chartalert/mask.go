package chartalert

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// masked is what stands in place of a credential.
const masked = "***"

// pairs matches a name and what separates it from its value, in JSON and in text.
var pairs = regexp.MustCompile(`["']?([A-Za-z][A-Za-z0-9_. -]{0,40}?)["']?\s*[:=]\s*`)

// tokens matches tokens of the service itself, and licences by which alerts for PineConnector begin.
var tokens = regexp.MustCompile(`\b(ain|ask|rt|whsec)_[A-Za-z0-9_+/=-]{16,}|^\s*\d{8,}\b`)

// Mask returns body, which need not be valid, without the values of names that stand for credentials of
// other services, and without tokens. Valid JSON loses its white space.
func Mask(body []byte) string {
	if text := bytes.TrimSpace(body); utf8.Valid(text) && jsonobject.Check(text) == nil {
		return string(maskJSON(nil, text))
	}
	text := tokens.ReplaceAllString(strings.ToValidUTF8(string(body), "\ufffd"), masked)
	var b strings.Builder
	for text != "" {
		at := pairs.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		name := text[at[2]:at[3]]
		if i := knownName(name); i >= 0 {
			name = name[i:] // behind other words
		}
		b.WriteString(text[:at[1]])
		text = text[at[1]:]
		if names[compact(name)].field == secret {
			b.WriteString(masked)
			text = text[valueLength(text):]
		}
	}
	b.WriteString(text)
	return b.String()
}

// maskJSON adds a JSON value to b.
func maskJSON(b, value []byte) []byte {
	switch value[0] {
	case '{':
		b = append(b, '{')
		for name, v := range jsonobject.Members(value) {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			b = append(signal.AppendText(b, string(name)), ':')
			if names[compact(string(name))].field == secret {
				b = signal.AppendText(b, masked)
			} else {
				b = maskJSON(b, v)
			}
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for v := range jsonobject.Items(value) {
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			b = maskJSON(b, v)
		}
		return append(b, ']')
	case '"':
		return signal.AppendText(b, tokens.ReplaceAllString(string(jsonobject.Text(value)), masked))
	}
	return append(b, value...)
}

// valueLength returns the length of the value with which text begins: a quoted text, an object or list, or all up to a
// separator.
func valueLength(text string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
			if depth == 0 {
				return i + 1
			}
		case quote != 0:
		case (c == '"' || c == '\'') && (depth > 0 || i == 0):
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + min(1, depth+1)
			}
		case depth == 0 && strings.IndexByte(" \t\r\n;,", c) >= 0:
			return i
		}
	}
	return len(text)
}
