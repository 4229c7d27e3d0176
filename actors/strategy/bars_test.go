package strategy

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestCheck(t *testing.T) {
	good := marketdata.Bar{OpenTime: 1, CloseTime: 2, Open: 10, High: 12, Low: 9, Close: 11, Volume: 5}
	if err := CheckBar(good); err != nil {
		t.Fatalf("a good bar: %v", err)
	}
	for name, spoil := range map[string]func(*marketdata.Bar){
		"NaN":                      func(b *marketdata.Bar) { b.Close = math.NaN() },
		"infinite":                 func(b *marketdata.Bar) { b.High = math.Inf(1) },
		"negative":                 func(b *marketdata.Bar) { b.Low = -1 },
		"zero":                     func(b *marketdata.Bar) { b.Open = 0 },
		"absurdly high":            func(b *marketdata.Bar) { b.High = 1e16 },
		"high below close":         func(b *marketdata.Bar) { b.High = 10.5 },
		"high below open":          func(b *marketdata.Bar) { b.Open, b.High = 12.5, 12 },
		"low above open":           func(b *marketdata.Bar) { b.Low = 10.5 },
		"low above close":          func(b *marketdata.Bar) { b.Close, b.Low = 8, 9 },
		"volume is NaN":            func(b *marketdata.Bar) { b.Volume = math.NaN() },
		"volume is infinite":       func(b *marketdata.Bar) { b.Volume = math.Inf(1) },
		"volume is negative":       func(b *marketdata.Bar) { b.Volume = -1 },
		"closes when it opens":     func(b *marketdata.Bar) { b.CloseTime = 1 },
		"closes before it opens":   func(b *marketdata.Bar) { b.CloseTime = 0 },
		"price below the smallest": func(b *marketdata.Bar) { b.Low = 1e-9 },
	} {
		b := good
		spoil(&b)
		if err := CheckBar(b); !errors.Is(err, ErrBadBar) {
			t.Errorf("%s: %v, want ErrBadBar", name, err)
		}
	}
}

func TestAppendBar(t *testing.T) {
	bar := func(open, end int64, price float64) marketdata.Bar {
		return marketdata.Bar{OpenTime: open, CloseTime: end, Open: price, High: price, Low: price, Close: price}
	}
	for _, c := range []struct {
		name string
		next marketdata.Bar
		want []marketdata.Bar
		err  error
	}{
		{"the next bar", bar(20, 30, 6), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5), bar(20, 30, 6)}, nil},
		{"after a gap", bar(50, 60, 6), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5), bar(50, 60, 6)}, nil},
		{"a later copy replaces", bar(10, 20, 6), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 6)}, nil},
		{"an older bar", bar(0, 10, 6), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5)}, ErrOldBar},
		{"inside the last bar", bar(15, 25, 6), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5)}, ErrBadBar},
		{"a bad bar", bar(20, 30, -1), []marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5)}, ErrBadBar},
	} {
		got, err := AppendBar([]marketdata.Bar{bar(0, 10, 4), bar(10, 20, 5)}, c.next)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// without returns the bars except those at the given indexes.
func without(bars []marketdata.Bar, gone ...int) []marketdata.Bar {
	var list []marketdata.Bar
	for i, b := range bars {
		if !slices.Contains(gone, i) {
			list = append(list, b)
		}
	}
	return list
}

func TestFillGaps(t *testing.T) {
	bars := walk(31, 500, 0.01)
	every := func(n, count int) (gone []int) {
		for i := range count {
			gone = append(gone, 10+n*i)
		}
		return gone
	}
	for _, c := range []struct {
		name string
		gone []int
		fail bool
	}{
		{"nothing missing", nil, false},
		{"one", []int{100}, false},
		{"three in a row", []int{100, 101, 102}, false},
		{"four in a row", []int{100, 101, 102, 103}, true},
		{"2 % in all", every(40, 10), false},
		{"more than 2 % in all", every(40, 11), true},
	} {
		got, err := FillGaps(without(bars, c.gone...), nil)
		if c.fail {
			e, ok := errors.AsType[*signal.RunError](err)
			if !ok || e.Code != signal.DataUnavailable || !e.Retryable {
				t.Errorf("%s: %v, want DATA_UNAVAILABLE to be retried", c.name, err)
			}
			continue
		}
		if err != nil || len(got) != len(bars) {
			t.Errorf("%s: %d bars, %v, want %d", c.name, len(got), err, len(bars))
			continue
		}
		for i, b := range got {
			want := bars[i]
			if slices.Contains(c.gone, i) {
				want = flatAt(i, got[i-1].Close)
				want.Flat = true
			}
			if b != want {
				t.Errorf("%s: bar %d is %+v, want %+v", c.name, i, b, want)
			}
		}
	}
}

// TestClosedSessionsAreNoGaps uses a market that is open for six hours a day.
func TestClosedSessionsAreNoGaps(t *testing.T) {
	var bars []marketdata.Bar
	for i, b := range walk(32, 600, 0.01) {
		if i%24 < 6 {
			bars = append(bars, b)
		}
	}
	next := func(b marketdata.Bar) int64 {
		if open := b.CloseTime; open/hour%24 < 6 {
			return open
		}
		return (b.OpenTime/(24*hour) + 1) * 24 * hour
	}
	if _, err := FillGaps(bars, nil); err == nil {
		t.Error("a market that is always open would have gaps here")
	}
	got, err := FillGaps(bars, next)
	if diff := cmp.Diff(bars, got); err != nil || diff != "" {
		t.Errorf("closed sessions were filled: %v\n%s", err, diff)
	}
	got, err = FillGaps(without(bars, 7), next)
	if err != nil || len(got) != len(bars) || !got[7].Flat {
		t.Errorf("a bar missing inside a session was not filled: %v", err)
	}
	// The first bar of a session is missing: its fill opens with the session.
	if got, err = FillGaps(without(bars, 6), next); err != nil || got[6].OpenTime != bars[6].OpenTime {
		t.Errorf("the first bar of a session was not filled: %v", err)
	}
}

// FuzzAppend checks that every bar that a series accepts yields finite numbers.
func FuzzAppend(f *testing.F) {
	f.Add(100.0, 101.0, 99.0, 100.5, 10.0, int64(1))
	f.Add(math.NaN(), math.Inf(1), -1.0, 0.0, -1.0, int64(-1))
	f.Add(1e15, 1e15, 1e-8, 1e-8, 1e300, int64(3_600_000))
	f.Add(5e-324, 1.7e308, 5e-324, 1.0, 0.0, int64(math.MaxInt64))
	history := walk(41, 420, 0.01)
	f.Fuzz(func(t *testing.T, open, high, low, closing, volume float64, length int64) {
		s := seriesOf(t, signal.H1, history)
		last := s.Last()
		b := marketdata.Bar{OpenTime: last.CloseTime, CloseTime: last.CloseTime + length,
			Open: open, High: high, Low: low, Close: closing, Volume: volume}
		if err := s.Append(b); err != nil {
			if s.Last() != last {
				t.Fatalf("a refused bar is the last one")
			}
			return
		}
		if closing < open && high < open || !(low > 0) || !finite(high) || math.IsNaN(open) || length <= 0 {
			t.Fatalf("accepted: %+v", b)
		}
		for _, strategy := range technicalNames {
			a, err := s.Assess(strategy, signal.HighRisk)
			if runErrorCode(err) == signal.DataUnavailable {
				return // the bar opens too far from the one before
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []float64{a.Score, a.Confidence, a.Strength, a.ExpectedR(0), a.Sample, a.ATR} {
				if !finite(x) {
					t.Fatalf("%s of %+v: %+v", strategy, b, a)
				}
			}
			l, err := a.Levels(closing, 0)
			if err == nil && (!Ordered(a.Direction, l) || min(l.Stop, l.Target) <= 0 || !finite(l.Stop+l.Target)) {
				t.Fatalf("%s of %+v: levels %+v", strategy, b, l)
			}
			checkMetadata(t, a.Metadata("X", l, 0, nil))
		}
	})
}
