package redisclient

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestBufferDoubles(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789", 10_000)
	reply := bufio.NewReader(strings.NewReader(text))
	var w Buffer
	grown := 0
	for i := 0; i < len(text); i += 10 {
		before := cap(w.b)
		n, err := int64(0), error(nil)
		if i%20 == 0 {
			n, err = w.ReadFrom(io.LimitReader(reply, 10))
		} else {
			piece, _ := io.ReadAll(io.LimitReader(reply, 10))
			var written int
			written, err = w.Write(piece)
			n = int64(written)
		}
		if n != 10 || err != nil {
			t.Fatalf("at %d: %d bytes, %v", i, n, err)
		}
		if after := cap(w.b); after != before {
			if grown++; after < max(2*before, minBuffer) {
				t.Errorf("grew from %d to %d bytes", before, after)
			}
		}
	}
	if !bytes.Equal(w.b, []byte(text)) || grown == 0 {
		t.Errorf("%d of %d bytes are kept, grown %d times", len(w.b), len(text), grown)
	}
}

// FuzzReply: the replies of Redis are read without a panic, whatever they are.
func FuzzReply(f *testing.F) {
	f.Add([]byte("*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$1\r\nd\r\n$2\r\n{}\r\n"))
	f.Add([]byte("*-1\r\n"))
	f.Add([]byte("_\r\n"))
	f.Add([]byte("-ERR x\r\n"))
	f.Add([]byte("*2000000000\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReplyReader(b)
		r.Entries(nil)
		answered(b)
	})
}
