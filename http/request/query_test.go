package request

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestSince(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	valid := map[string]time.Time{
		"2026-11-21T09:30:00Z":             at,
		"2026-11-21T09:30:00.000Z":         at,
		"2026-11-21t09:30:00z":             at,
		"2026-11-21T09:30:00":              at,
		"2026-11-21T09:30:00.25":           at.Add(250 * time.Millisecond),
		"2026-11-21T10:30:00%2B01:00":      at,
		"2026-11-21T10:30:00+01:00":        at,
		"2026-11-21T02:00:00-07:30":        at,
		"2026-11-21":                       at.Truncate(24 * time.Hour),
		"2026-11-21T09:30:00.123456789Z":   at.Add(123456789),
		"2026-11-21T09:30:00.1234567890Z":  at.Add(123456789),
		"0001-01-01T00:00:00Z":             {},
		"2026-11-21T09%3A30%3A00.5%2B0000": {}, // refused
	}
	for text, want := range valid {
		var f Faults
		q := NewQuery("since="+text, &f, "since")
		got := q.Since()
		if refused := strings.HasSuffix(text, "0000"); !got.Equal(want) || f.Any() != refused {
			t.Errorf("%s: got %v, faults %v", text, got, f.list)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"limit=5&offset=2&since=2026-11-21T09:30:00Z", "limit=%35&limit=5",
		"min_confidence=1e-3&x=%zz", "asset=%ff;a=b", "since=2026-11-21 09:30"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var f Faults
		q := NewQuery(raw, &f, "limit", "offset", "since", "asset", "min_confidence")
		p := q.Page()
		since, asset, least := q.Since(), q.Text("asset", 64), q.Fraction("min_confidence")
		if p.Limit < 1 || p.Limit > maxLimit || p.Offset < 0 || least < 0 || least > 1 || !utf8.ValidString(asset) ||
			since.Location() != time.UTC {
			t.Fatalf("%q: %+v %v %q %v", raw, p, since, asset, least)
		}
		if !json.Valid([]byte(p.Written)) {
			t.Fatalf("%q: offset %s", raw, p.Written)
		}
	})
}
