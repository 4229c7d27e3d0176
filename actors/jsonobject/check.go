package jsonobject

import (
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deeply objects and arrays may nest. The deepest body of the API nests
// three levels.
const maxDepth = 32

// SyntaxError is the first fault in a JSON text.
type SyntaxError struct {
	At     int // offset of the byte that is wrong
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.At) }

// scanner walks over JSON without building values.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   *SyntaxError // the first
}

// Check returns nil if data is exactly one JSON text of RFC 8259. It is stricter than
// encoding/json: strings must be UTF-8 without lone surrogates (RFC 7493), and nesting is
// limited to 32 levels.
func Check(data []byte) *SyntaxError {
	s := scanner{data: data}
	s.space()
	s.value()
	s.space()
	if s.err == nil && s.pos < len(data) {
		s.fail("text after the end of the value")
	}
	return s.err
}

// IsNumber reports whether text is exactly one JSON number.
func IsNumber(text string) bool {
	s := scanner{data: []byte(text)}
	return s.number() && s.pos == len(text)
}

// fail records the first error. Callers return false with it.
func (s *scanner) fail(reason string) bool {
	if s.err == nil {
		if s.pos >= len(s.data) {
			reason = "unexpected end"
		}
		s.err = &SyntaxError{At: s.pos, Reason: reason}
	}
	return false
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// value skips one value.
func (s *scanner) value() bool {
	switch c := s.peek(); {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"':
		return s.text()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.fail("expected a value")
}

// enter opens an object or array.
func (s *scanner) enter() bool {
	if s.depth++; s.depth > maxDepth {
		return s.fail(fmt.Sprintf("nested more than %d levels deep", maxDepth))
	}
	s.pos++
	s.space()
	return true
}

// leave closes an object or array.
func (s *scanner) leave() bool {
	s.depth--
	s.pos++
	return true
}

func (s *scanner) object() bool {
	if !s.enter() {
		return false
	}
	if s.peek() == '}' {
		return s.leave()
	}
	for {
		if s.peek() != '"' {
			return s.fail("expected a member name")
		}
		if !s.text() {
			return false
		}
		s.space()
		if s.peek() != ':' {
			return s.fail("expected a colon")
		}
		s.pos++
		s.space()
		if !s.value() {
			return false
		}
		s.space()
		switch s.peek() {
		case '}':
			return s.leave()
		case ',':
			s.pos++
			s.space()
		default:
			return s.fail("expected a comma or a closing brace")
		}
	}
}

func (s *scanner) array() bool {
	if !s.enter() {
		return false
	}
	if s.peek() == ']' {
		return s.leave()
	}
	for {
		if !s.value() {
			return false
		}
		s.space()
		switch s.peek() {
		case ']':
			return s.leave()
		case ',':
			s.pos++
			s.space()
		default:
			return s.fail("expected a comma or a closing bracket")
		}
	}
}

// text skips a string.
func (s *scanner) text() bool {
	s.pos++
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return s.fail("control character in a string")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return s.fail("invalid UTF-8")
			}
			s.pos += size
		}
	}
	return s.fail("unexpected end")
}

// escape skips an escape sequence, or the two of a surrogate pair.
func (s *scanner) escape() bool {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
	default:
		return s.fail("invalid escape sequence")
	}
	unit, ok := s.codeUnit()
	if !ok {
		return false
	}
	switch {
	case 0xdc00 <= unit && unit <= 0xdfff:
		return s.fail("lone surrogate")
	case unit < 0xd800 || unit > 0xdbff:
		return true
	}
	if s.peek() != '\\' || s.pos+1 >= len(s.data) || s.data[s.pos+1] != 'u' {
		return s.fail("lone surrogate")
	}
	s.pos++
	low, ok := s.codeUnit()
	if !ok {
		return false
	}
	if low < 0xdc00 || low > 0xdfff {
		return s.fail("lone surrogate")
	}
	return true
}

// codeUnit skips "u" and four hexadecimal digits and returns their value.
func (s *scanner) codeUnit() (unit uint32, ok bool) {
	s.pos++
	for range 4 {
		c := s.peek()
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.fail("invalid escape sequence")
		}
		unit = unit<<4 | uint32(c)
		s.pos++
	}
	return unit, true
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

// digits skips one digit or more.
func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	if s.pos == start {
		return s.fail("expected a digit")
	}
	return true
}

func (s *scanner) word(w string) bool {
	for i := range len(w) {
		if s.peek() != w[i] {
			return s.fail("expected a value")
		}
		s.pos++
	}
	return true
}
