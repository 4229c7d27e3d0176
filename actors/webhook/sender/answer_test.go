package sender

import (
	"errors"
	"io"
	"net/http"
	"regexp"
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

// All attempts at the deliveries of an event are in one trace, with a parent each.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const event, other = "evt_01M7YQ1X3DTRA4S2456P21NJZ0", "evt_01M7YQ1X3DTRA4S2456P21NJZ1"
	form := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-00$`)
	traces, parents := map[string]int{}, map[string]bool{}
	for _, r := range []Request{
		{Event: event, Delivery: "dlv_1", Attempt: 1}, {Event: event, Delivery: "dlv_1", Attempt: 2},
		{Event: event, Delivery: "dlv_2", Attempt: 1}, {Event: other, Delivery: "dlv_3", Attempt: 1},
		{Event: "no ULID", Delivery: "dlv_4", Attempt: 1},
	} {
		text := string(appendTraceparent(nil, &r))
		found := form.FindStringSubmatch(text)
		if found == nil || string(appendTraceparent(nil, &r)) != text {
			t.Fatalf("%+v has %q", r, text)
		}
		traces[found[1]]++
		parents[found[2]] = true
	}
	if traces["01a1fd70f46dd6144c888535841acbe0"] != 3 || len(traces) != 3 || len(parents) != 5 {
		t.Errorf("traces %v, parents %v", traces, parents)
	}
}

// A body that matters is all of it, as it came, or too long.
func TestAWholeBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	for _, test := range []struct {
		name    string
		body    io.Reader
		want    string
		tooLong bool
		err     error
	}{
		{"none", http.NoBody, "", false, nil},
		{"the maximum", strings.NewReader("12345678"), "12345678", false, nil},
		{"a byte more", strings.NewReader("123456789"), "", true, nil},
		{"no text", strings.NewReader("a\xffb"), "a\xffb", false, nil},
		{"one that breaks off", io.MultiReader(strings.NewReader("123"), iotest.ErrReader(broken)), "", false, broken},
		{"one that breaks off later", io.MultiReader(strings.NewReader("123456789"), iotest.ErrReader(broken)), "", true, nil},
	} {
		got, tooLong, err := readWhole(test.body, 8)
		if got != test.want || tooLong != test.tooLong || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v, %v", test.name, got, tooLong, err)
		}
	}
	r := strings.NewReader(strings.Repeat("x", 10<<20))
	readWhole(r, 8)
	if read := 10<<20 - r.Len(); read != 9 {
		t.Errorf("%d bytes of a long body were read", read)
	}
}
