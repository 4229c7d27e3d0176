package http

import (
	"strings"
	"testing"
)

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"": false, "gzip": true, "GZIP": true, "br, gzip": true, "br": false,
		"identity": false, "*": true, "*;q=0": false,
		"gzip;q=0": false, "gzip; q=0.0": false, "gzip;Q=0.001": true, "gzip;q=x": false, "*;q=0, gzip": true,
		"gzip;q=0, *": false, "xgzip": false, "gzip;v=1": true} {
		if got := takesGzip([]string{value}); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
	if takesGzip(nil) || !takesGzip([]string{"br", "gzip"}) {
		t.Error("headers that come more than once")
	}
}

func TestADocumentIsCompressedOnce(t *testing.T) {
	t.Parallel()
	d := document{plain: []byte(strings.Repeat("a long text ", 200))}
	first, second := d.compressed(), d.compressed()
	if len(first) == 0 || &first[0] != &second[0] {
		t.Error("it is compressed again")
	}
}

func FuzzTakesGzip(f *testing.F) {
	for _, seed := range []string{"gzip", "br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0", ";;=,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if takesGzip([]string{value}) && !strings.Contains(strings.ToLower(value), "gzip") &&
			!strings.Contains(value, "*") {
			t.Errorf("%q takes gzip", value)
		}
		if takesGzip([]string{"gzip;q=0," + value}) {
			t.Errorf("%q takes gzip although it was refused first", value)
		}
	})
}
