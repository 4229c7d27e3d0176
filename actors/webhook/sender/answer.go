package sender

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// maxBodyRead bounds the bytes read of an answer's body, of which delivery.MaxResponseBody
// are kept. A connection with a longer answer is not reused.
const maxBodyRead = 64 << 10

var bodyBuffers = sync.Pool{New: func() any { return new([delivery.MaxResponseBody]byte) }}

// readBody returns the beginning of an answer's body as text, and reads the rest within
// limits, so that the connection can be reused. If reading fails, it returns the part it
// has. The request's context limits the time.
func readBody(r io.Reader) string {
	if r == http.NoBody {
		return ""
	}
	b := bodyBuffers.Get().(*[delivery.MaxResponseBody]byte)
	defer bodyBuffers.Put(b)
	n, err := io.ReadFull(r, b[:])
	if err != nil {
		return toText(b[:n], !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF))
	}
	// A failure here does not matter: the kept part has been read.
	more, _ := io.CopyN(io.Discard, r, maxBodyRead-delivery.MaxResponseBody)
	return toText(b[:], more > 0)
}

// toText returns b as valid UTF-8 of at most delivery.MaxResponseBody bytes. Invalid bytes
// become U+FFFD. If the body was cut, an incomplete character at the end is dropped.
func toText(b []byte, cut bool) string {
	if cut {
		b = b[:len(b)-tornBytes(b)]
	}
	s := string(b)
	if utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) > delivery.MaxResponseBody { // U+FFFD is longer than the bytes it replaces
		s = s[:delivery.MaxResponseBody]
		s = s[:len(s)-tornBytes([]byte(s))]
	}
	return s
}

// tornBytes returns the length of an incomplete character at the end of b, 0 to 3.
func tornBytes(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// CutBody truncates s to at most n bytes, between two characters.
func CutBody(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-tornBytes([]byte(s[:n]))]
}
