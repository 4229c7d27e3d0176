package signal

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestAppendPrice(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{64250.125, "64250.125"}, {1e-8, "0.00000001"}, {0.30000000000000004, "0.30000000000000004"},
		{1e21, "1000000000000000000000"}, {67000, "67000"}, {-2.5, "-2.5"}, {0, "0"},
	} {
		if got := string(AppendPrice(nil, c.v)); got != c.want {
			t.Errorf("AppendPrice(%v) = %s, want %s", c.v, got, c.want)
		}
	}
}

func TestAppendConfidence(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0.43719999, "0.4372"}, {0.5, "0.5"}, {0.01, "0.01"}, {0.99, "0.99"}, {0.40005, "0.4001"}, {1, "1"}, {0, "0"},
	} {
		if got := string(AppendConfidence(nil, c.v)); got != c.want {
			t.Errorf("AppendConfidence(%v) = %s, want %s", c.v, got, c.want)
		}
	}
}

func TestAppendTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 30, 0, 120_999_999, time.FixedZone("", 3600))
	if got, want := string(AppendTime(nil, at)), `"2026-11-21T09:30:00.120Z"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendTimeEqualsTheLayout(t *testing.T) {
	times := []time.Time{
		{}, time.Unix(0, 0), time.UnixMilli(-1),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2028, 2, 29, 23, 59, 59, 5_000_000, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for ms := int64(1795253400123); len(times) < 500; ms += 98_765_432_109 {
		times = append(times, time.UnixMilli(ms))
	}
	for _, at := range times {
		if got, want := string(AppendTime(nil, at)), `"`+at.UTC().Format(TimeLayout)+`"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzAppendText(f *testing.F) {
	f.Add("")
	f.Add("BTC")
	f.Add(`a"b\c`)
	f.Add("line\nbreak\x00\x7f")
	f.Add("Größe 東京 \u2028</script>")
	f.Add("bad \xff\xfe utf8")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(AppendText(nil, s), &got); err != nil {
			t.Fatalf("AppendText(%q) is not JSON: %v", s, err)
		}
		want := s
		if !utf8.ValidString(s) {
			want = string([]rune(s)) // each bad byte becomes U+FFFD
		}
		if got != want {
			t.Fatalf("read back %q, want %q", got, want)
		}
	})
}

func FuzzAppendPrice(f *testing.F) {
	for _, v := range []float64{0, 1e-8, 64250.125, 1e300, -3} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Skip()
		}
		b := AppendPrice(nil, v)
		var got float64
		if err := json.Unmarshal(b, &got); err != nil || got != v {
			t.Fatalf("AppendPrice(%v) = %s reads back as %v (%v)", v, b, got, err)
		}
		if strings.ContainsAny(string(b), "eE") {
			t.Fatalf("AppendPrice(%v) = %s has an exponent", v, b)
		}
	})
}
