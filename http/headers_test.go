package http

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for value, want := range map[string]string{
		"00-" + id + "-b7ad6b7169203331-01":                        id,
		"01-" + id + "-b7ad6b7169203331-01-more":                   id,
		"ff-" + id + "-b7ad6b7169203331-01":                        "",
		"00-" + strings.ToUpper(id) + "-b7ad6b7169203331-01":       "",
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01":   "",
		"00-" + id + "_b7ad6b7169203331-01":                        "",
		"00-" + strings.Repeat("\n", 32) + "-b7ad6b7169203331-01 ": "",
		"nonsense": "",
		"":         "",
	} {
		r := &http.Request{Header: http.Header{"Traceparent": {value}}}
		if got := traceID(r); got != want {
			t.Errorf("%q: got %q", value, got)
		}
	}
}

func TestDeprecatedVersions(t *testing.T) {
	t.Parallel()
	old := newVersion("2026-05-01", "deprecated")
	old.DeprecatedAt, old.SunsetAt = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	s := &Server{versions: []apiVersion{newVersion("2026-11-01", "current"), old}}
	h := http.Header{}
	c := &call{ResponseWriter: headerOnly(h),
		r: &http.Request{Header: http.Header{versionHeader: {"2026-05-01"}}}, server: s}
	s.selectVersion(c)
	want := http.Header{versionHeader: {"2026-05-01"}, "Deprecation": {"@1793491200"},
		"Sunset": {"Tue, 01 Jun 2027 00:00:00 GMT"}}
	if d := cmp.Diff(want, h); d != "" || c.faults.Any() {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

// headerOnly is a ResponseWriter for its headers.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) Write(b []byte) (int, error) { return len(b), nil }
func (h headerOnly) WriteHeader(int)             {}
