// Package jsonobject takes JSON objects of clients apart without building values, for the
// bodies of requests and the messages of the stream alike. Unlike encoding/json it keeps
// what a decoder into a struct hides: the exact names, unknown and repeated members, and
// their order.
//
// Check is the strict test of a text. Members, Items and Text read what is known to be
// valid JSON; which members there may be, and what a fault is called, is the caller's.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// spaces is the white space of JSON.
const spaces = " \t\r\n"

// Trim returns text without the white space around it.
func Trim(text []byte) []byte { return bytes.Trim(text, spaces) }

// Members yields the name, without escapes, and the JSON of each member of object, in
// their order; a repeated one comes repeatedly. object must be valid and begin with its
// brace.
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

// cut returns the first name or value of text, and what follows the colon, comma or
// bracket behind it. The element is empty where there is none left.
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

// Text returns what a valid JSON string stands for. Bytes that are not UTF-8 and lone
// surrogates, both of which Check refuses, become U+FFFD.
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
