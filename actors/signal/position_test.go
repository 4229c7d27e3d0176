package signal

import (
	"math"
	"testing"
	"time"
)

func TestPositionsReadBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    Position
		text string
	}{
		{Position{}, "0-0"},
		{Position{MS: 1_795_253_400_123, Seq: 7}, "1795253400123-7"},
		{Position{MS: math.MaxInt64, Seq: math.MaxInt64}, "9223372036854775807-9223372036854775807"},
	} {
		if got := c.p.String(); got != c.text {
			t.Errorf("%+v is written as %q, want %q", c.p, got, c.text)
		}
		if got := string(c.p.Append([]byte("at "))); got != "at "+c.text {
			t.Errorf("%+v is appended as %q, want %q", c.p, got, "at "+c.text)
		}
		if got, ok := ParsePosition(c.text); !ok || got != c.p {
			t.Errorf("%q is parsed as %+v, %v, want %+v", c.text, got, ok, c.p)
		}
	}
	for _, text := range []string{
		"", "-", "1", "1-", "-1", "1-2-3", "+1-2", "1-+2", "-1-2", " 1-2", "1-2 ", "1.5-2", "0x1-2", "1_0-2",
		"9223372036854775808-0", "0-9223372036854775808",
	} {
		if p, ok := ParsePosition(text); ok {
			t.Errorf("%q is parsed as %+v", text, p)
		}
	}
}

func TestOrderOfPositions(t *testing.T) {
	t.Parallel()
	ascending := []Position{{}, {0, 1}, {1, 0}, {1, 2}, {1, 10}, {2, 0}}
	for i, p := range ascending {
		for j, q := range ascending {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := p.Compare(q); got != want {
				t.Errorf("%v compared with %v is %d, want %d", p, q, got, want)
			}
			if got, want := p.Later(q), ascending[max(i, j)]; got != want {
				t.Errorf("the later of %v and %v is %v, want %v", p, q, got, want)
			}
		}
		if p.IsZero() != (i == 0) {
			t.Errorf("IsZero of %v is %v", p, p.IsZero())
		}
	}
	if got, want := (Position{5, 7}).Plus(2), (Position{5, 9}); got != want {
		t.Errorf("two entries later: %v, want %v", got, want)
	}
}

func TestTimeOfAPosition(t *testing.T) {
	t.Parallel()
	e := Event{Position: Position{MS: 1_795_253_400_123, Seq: 4}}
	want := time.Date(2026, 11, 21, 9, 30, 0, 123_000_000, time.UTC)
	if got := e.Time(); !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("time %v, want %v", got, want)
	}
}

// FuzzParsePosition checks that a position has exactly one accepted spelling, apart from
// leading zeros.
func FuzzParsePosition(f *testing.F) {
	f.Add("1795253400123-7")
	f.Add("+1-0")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := ParsePosition(text)
		if !ok {
			return
		}
		if p.MS < 0 || p.Seq < 0 || len(p.String()) > len(text) {
			t.Errorf("%q is parsed as %v", text, p)
		}
		if again, ok := ParsePosition(p.String()); !ok || again != p {
			t.Errorf("%v reads back as %v, %v", p, again, ok)
		}
	})
}
