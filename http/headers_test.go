package http

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDeprecatedVersions(t *testing.T) {
	t.Parallel()
	old := newVersion("2026-05-01", "deprecated")
	old.DeprecatedAt, old.SunsetAt = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	h := http.Header{}
	c := &call{ResponseWriter: headerOnly(h),
		r: &http.Request{Header: http.Header{versionHeader: {"2026-05-01"}}}}
	versions{newVersion("2026-11-01", "current"), old}.choose(c)
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
