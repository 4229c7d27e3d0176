// Package jsonobject splits JSON objects of clients into members, for the bodies of requests
// and the messages of the stream. Unlike a decoder into a struct it reports exact names,
// unknown and repeated members, and their order.
//
// Check validates a text strictly. Members, Items and Text read valid JSON. The caller
// decides which members are allowed.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Trim returns text without JSON's white space around it.
func Trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// Members yields the unescaped name and the JSON value of each member of object in order,
// including repeated ones. object must be valid and begin with its brace.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rest := object[1:]; ; {
			var name, value []byte
			if name, rest = cut(rest); len(name) == 0 {
				return
			}
			value, rest = cut(rest)
			if !yield(Text(name), value) {
				return
			}
		}
	}
}

// Items yields the JSON of each item of array, which must be valid and begin with its
// bracket.
func Items(array []byte) iter.Seq[[]byte] {
	return func(yield func(item []byte) bool) {
		item, rest := cut(array[1:])
		for len(item) > 0 && yield(item) {
			item, rest = cut(rest)
		}
	}
}

// cut returns the first name or value of text and the rest after its colon, comma or
// bracket. The element is empty at the end.
func cut(text []byte) (element, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case depth == 0 && (c == ':' || c == ',' || c == '}' || c == ']'):
			return Trim(text[:i]), text[i+1:]
		case c == '}', c == ']':
			depth--
		}
	}
	return nil, nil
}

// Text returns the unquoted text of a valid JSON string. Invalid UTF-8 and lone surrogates,
// both of which Check refuses, become U+FFFD.
func Text(quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text // nearly always
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic("read a valid JSON string: " + err.Error())
	}
	return []byte(s)
}
