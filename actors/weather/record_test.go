package weather

import (
	"math"
	"testing"
	"time"
)

func sameSeries(a, b *Series) bool {
	if a.From != b.From || len(a.Days) != len(b.Days) {
		return false
	}
	for i := range a.Days {
		for v := range dayValues {
			if math.Float32bits(*a.Days[i].value(v)) != math.Float32bits(*b.Days[i].value(v)) {
				return false
			}
		}
	}
	return true
}

func TestRecords(t *testing.T) {
	t.Parallel()
	archive, err := NewSimulated(1, 1).Archive(t.Context(), points2())
	if err != nil {
		t.Fatal(err)
	}
	holes := &Series{From: -20, Days: []Day{unknown, {Mean: 1, Gust: missing}}}
	run := time.UnixMilli(1795253400123).UTC()
	for name, f := range map[string]forecast{"archive": {series: archive["Chicago"]}, "forecast": {run, holes},
		"empty": {run, &Series{}}} {
		b := appendForecast(nil, f)
		got, err := decodeForecast(b)
		if err != nil || !got.run.Equal(f.run) || !sameSeries(got.series, f.series) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "archive" {
			t.Logf("an archive takes %d bytes", len(b))
			if len(b) > 300_000 {
				t.Errorf("an archive takes %d bytes", len(b))
			}
		}
		for n := range min(len(b), 50) {
			if _, err := decodeForecast(b[:n]); err == nil {
				t.Errorf("%s: the first %d bytes are accepted", name, n)
			}
		}
	}
}

// FuzzRecord checks that no stored bytes cause a panic.
func FuzzRecord(f *testing.F) {
	f.Add(appendForecast(nil, forecast{series: &Series{From: 5, Days: []Day{unknown}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := decodeForecast(b); err == nil {
			again, err := decodeForecast(appendForecast(nil, got))
			if err != nil || !sameSeries(got.series, again.series) {
				t.Errorf("read again: %v", err)
			}
		}
	})
}
