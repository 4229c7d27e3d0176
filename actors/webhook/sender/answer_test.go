package sender

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestTheBeginningOfABodyIsKeptAsText(t *testing.T) {
	t.Parallel()
	full, half := strings.Repeat("x", delivery.MaxResponseBody), delivery.MaxResponseBody/2
	breaksOff := func(text string) io.Reader {
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(errors.New("reset")))
	}
	tests := []struct {
		name string
		body io.Reader
		want string
	}{
		{"no body", http.NoBody, ""},
		{"an empty body", strings.NewReader(""), ""},
		{"a short one", strings.NewReader("busy"), "busy"},
		{"a short one in pieces", iotest.OneByteReader(strings.NewReader("schön")), "schön"},
		{"one of the maximum length", strings.NewReader(full), full},
		{"one that is longer", strings.NewReader(full + "y"), full},
		{"one that ends within a character", strings.NewReader("sch\xc3"), "sch\ufffd"},
		{"one that is cut within a character", strings.NewReader(full[2:] + "日本"), full[2:]},
		{"one that breaks off within a character", breaksOff("sch\xc3"), "sch"},
		{"one that breaks off", breaksOff("half"), "half"},
		{"one that breaks off after the kept part", breaksOff(full + "y"), full},
		{"bytes that are not text", strings.NewReader("a\xff\xfe\x00b"), "a\ufffd\x00b"},
		{"a long replacement", strings.NewReader(strings.Repeat("x\xff", half)), strings.Repeat("x\ufffd", half/2)},
	}
	for _, test := range tests {
		if got := readBody(test.body); got != test.want {
			t.Errorf("%s: %d bytes %.40q, want %d bytes %.40q", test.name, len(got), got, len(test.want), test.want)
		}
	}
}

func TestABodyIsReadUpToALimit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, delivery.MaxResponseBody, maxBodyRead, maxBodyRead + 10, 10 << 20} {
		r := strings.NewReader(strings.Repeat("x", size))
		readBody(r)
		if want := max(0, size-maxBodyRead); r.Len() != want {
			t.Errorf("of %d bytes %d are left unread, want %d", size, r.Len(), want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte("busy"))
	f.Add([]byte("sch\xc3"))
	f.Add([]byte(strings.Repeat("\xff", delivery.MaxResponseBody)))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := readBody(strings.NewReader(string(body)))
		if !utf8.ValidString(text) || len(text) > delivery.MaxResponseBody {
			t.Errorf("%d bytes of %q were kept as %q", len(text), body, text)
		}
		if len(body) <= delivery.MaxResponseBody && utf8.Valid(body) && text != string(body) {
			t.Errorf("%q was kept as %q", body, text)
		}
	})
}
