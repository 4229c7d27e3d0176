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

// maxBodyRead is how much of an answer's body is read at most, in bytes, of which
// delivery.MaxResponseBody are kept. A connection whose answer is longer is not used
// again.
const maxBodyRead = 64 << 10

var bodyBuffers = sync.Pool{New: func() any { return new([delivery.MaxResponseBody]byte) }}

// readBody returns how the body of an answer begins, as text, and reads on to its
// end within limits, so that the connection can be used again. It returns what it
// has if reading fails; the time is limited by the request's context.
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
	// A failure here changes nothing: what is kept has been read.
	more, _ := io.CopyN(io.Discard, r, maxBodyRead-delivery.MaxResponseBody)
	return toText(b[:], more > 0)
}

// toText returns b as valid UTF-8 of at most delivery.MaxResponseBody bytes. Bytes that are no
// text become U+FFFD; a character that is cut off at the end is left out if the body
// goes on.
func toText(b []byte, cut bool) string {
	if cut {
		b = b[:len(b)-tornBytes(b)]
	}
	s := string(b)
	if utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) > delivery.MaxResponseBody { // U+FFFD is longer than what it stands for
		s = s[:delivery.MaxResponseBody]
		s = s[:len(s)-tornBytes([]byte(s))]
	}
	return s
}

// tornBytes returns how many bytes at the end of b begin a character without ending
// it, 0 to 3.
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

// CutBody returns the beginning of s, at most n bytes, which end between two characters.
func CutBody(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n-tornBytes([]byte(s[:n]))]
}
