package strategy

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const hour = int64(3_600_000)

// walk returns n bars of one hour on a random walk without drift. Each bar is
// built of steps moves. volatility is that of a bar.
func walk(seed uint64, n int, volatility float64) []marketdata.Bar {
	const steps = 12
	random := rand.New(rand.NewPCG(seed, 1))
	bars := make([]marketdata.Bar, n)
	price := 100.0
	for i := range bars {
		b := flatAt(i, price)
		for range steps {
			price *= math.Exp(volatility / math.Sqrt(steps) * random.NormFloat64())
			b.High, b.Low = max(b.High, price), min(b.Low, price)
		}
		b.Close = price
		b.Volume = 100 * math.Exp(0.5*random.NormFloat64())
		bars[i] = b
	}
	return bars
}

// flatAt returns the i-th bar of one hour, in which the price stands still.
func flatAt(i int, price float64) marketdata.Bar {
	return marketdata.Bar{OpenTime: int64(i) * hour, CloseTime: int64(i+1) * hour,
		Open: price, High: price, Low: price, Close: price}
}

var technicalNames = []string{Momentum, MeanReversion, Breakout}

// seriesOf returns a series with the given bars.
func seriesOf(tb testing.TB, tf signal.Timeframe, bars []marketdata.Bar) *Series {
	tb.Helper()
	s := NewSeries(tf)
	for _, b := range bars {
		add(tb, s, b)
	}
	return s
}

// add fails the test if s refuses b.
func add(tb rapid.TB, s *Series, b marketdata.Bar) {
	tb.Helper()
	if err := s.Append(b); err != nil {
		tb.Fatalf("append bar: %v", err)
	}
}

// assess fails the test if there is no assessment.
func assess(tb testing.TB, s *Series, strategy string, risk signal.RiskLevel) Assessment {
	tb.Helper()
	a, err := s.Assess(strategy, risk)
	if err != nil {
		tb.Fatalf("assess %s at %s risk: %v", strategy, risk, err)
	}
	return a
}

func runErrorCode(err error) signal.ErrorCode {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return e.Code
	}
	return ""
}

// TestNoLookAhead checks that later bars do not change the features and scores of a bar.
func TestNoLookAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bars := walk(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(121, 400).Draw(t, "bars"), 0.01)
		n := rapid.IntRange(1, len(bars)).Draw(t, "prefix")
		full := NewSeries(signal.H1)
		var seen Features
		for i, b := range bars {
			add(t, full, b)
			if i == n-1 {
				seen, _ = full.Features()
			}
		}
		prefix := NewSeries(signal.H1)
		for _, b := range bars[:n] {
			add(t, prefix, b)
		}
		got, _ := prefix.Features()
		if diff := cmp.Diff(seen, got, cmp.AllowUnexported(Features{}), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("features depend on the future:\n%s", diff)
		}
		if full.bars.history[n-1] != prefix.bars.history[n-1] {
			t.Fatalf("scores depend on the future: %+v, %+v", full.bars.history[n-1], prefix.bars.history[n-1])
		}
	})
}

// TestAssessmentDoesNotDependOnTheFuture checks the same for assessments, which also rest
// on outcomes: one equals that of a series with only the bars up to there, and outcomes
// never change once they are known.
func TestAssessmentDoesNotDependOnTheFuture(t *testing.T) {
	bars := walk(7, 900, 0.01)
	live := NewSeries(signal.H1)
	var resolved []outcome
	for i, b := range bars {
		add(t, live, b)
		if i < 320 || i%97 != 0 {
			continue
		}
		fresh := seriesOf(t, signal.H1, bars[:i+1])
		for _, strategy := range technicalNames {
			got, want := assess(t, live, strategy, signal.HighRisk), assess(t, fresh, strategy, signal.HighRisk)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("bar %d, %s: the way matters:\n%s", i, strategy, diff)
			}
		}
		now := live.entries.outcomes[2]
		if diff := cmp.Diff(resolved, now[:len(resolved):len(resolved)], cmp.AllowUnexported(outcome{}, sums{}),
			cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("bar %d: a resolved outcome changed:\n%s", i, diff)
		}
		resolved = append(resolved[:0], now...)
	}
}

// TestAssessmentsDoNotDependOnTheFirstBar checks the promise of doc.go for series that begin at
// different bars.
func TestAssessmentsDoNotDependOnTheFirstBar(t *testing.T) {
	bars := walk(11, 7600, 0.01)
	long, later, latest := NewSeries(signal.H1), NewSeries(signal.H1), NewSeries(signal.H1)
	compared := 0
	for i, b := range bars {
		for from, s := range map[int]*Series{0: long, 500: later, 1000: latest} {
			if i < from {
				continue
			}
			add(t, s, b)
		}
		if i%10 != 0 {
			continue
		}
		for _, strategy := range technicalNames {
			if i >= 7300 { // each has more than MaxOutcomes and 1,000 bars before them
				compared++
				want := assess(t, long, strategy, signal.MediumRisk)
				for _, s := range []*Series{later, latest} {
					got := assess(t, s, strategy, signal.MediumRisk)
					got.Score, got.ATR = want.Score, want.ATR // not rounded
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("bar %d, %s: the beginning shows:\n%s", i, strategy, diff)
					}
				}
			}
		}
	}
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

func TestInsufficientHistory(t *testing.T) {
	flat := make([]marketdata.Bar, 500)
	for i := range flat {
		flat[i] = flatAt(i, 5)
	}
	fills := walk(3, 300, 0.01)
	fills[200].Flat = true
	still := walk(3, 400, 0.01)
	for i := 380; i < 400; i++ {
		c := still[379].Close
		still[i].Open, still[i].High, still[i].Low, still[i].Close = c, c, c, c
	}
	for _, c := range []struct {
		name string
		bars []marketdata.Bar
		want signal.ErrorCode
	}{
		{"no bars", nil, signal.InsufficientHistory},
		{"299 bars", walk(3, 299, 0.01), signal.InsufficientHistory},
		{"300 bars", walk(3, 300, 0.01), ""},
		{"300 bars, one of them a fill", fills, signal.InsufficientHistory},
		{"a price that never moves", flat, signal.InsufficientHistory},
		{"20 equal closes", still[:399], signal.InsufficientHistory},
		{"19 equal closes", still[:398], ""},
	} {
		s := seriesOf(t, signal.H1, c.bars)
		_, err := s.Assess(Momentum, signal.MediumRisk)
		if got := runErrorCode(err); got != c.want {
			t.Errorf("%s: %v, want code %q", c.name, err, c.want)
		}
	}
}

func TestAssessNeedsAHundredOutcomes(t *testing.T) {
	bars := walk(5, 600, 0.01)
	// After a long standstill there are enough bars, but hardly any entries.
	for i := 130; i < 400; i++ {
		c := bars[129].Close
		bars[i].Open, bars[i].High, bars[i].Low, bars[i].Close = c, c, c, c
	}
	bars[400].Open, bars[400].High = bars[399].Close, max(bars[400].High, bars[399].Close)
	bars[400].Low = min(bars[400].Low, bars[399].Close)
	s := NewSeries(signal.H1)
	failed, succeeded := 0, 0
	for i, b := range bars {
		add(t, s, b)
		if i < 430 {
			continue
		}
		_, err := s.Assess(Momentum, signal.MediumRisk)
		switch n := s.entries.record(riskIndex(signal.MediumRisk)).count.n / 2; {
		case err == nil:
			succeeded++
			if n < minOutcomes {
				t.Fatalf("bar %d: assessed on %v outcomes", i, n)
			}
		default:
			failed++
			if got := runErrorCode(err); got != signal.InsufficientHistory {
				t.Fatalf("bar %d: %v", i, err)
			}
		}
	}
	if failed == 0 || succeeded == 0 {
		t.Fatalf("failed %d times, succeeded %d times, want both", failed, succeeded)
	}
}

func TestUnknownStrategyOrRisk(t *testing.T) {
	s := seriesOf(t, signal.H1, walk(1, 400, 0.01))
	for _, c := range []struct {
		strategy string
		risk     signal.RiskLevel
	}{{"astrology", signal.LowRisk}, {Momentum, "extreme"}, {"", ""}} {
		if _, err := s.Assess(c.strategy, c.risk); runErrorCode(err) != signal.Internal {
			t.Errorf("%q at %q: %v, want INTERNAL", c.strategy, c.risk, err)
		}
	}
}

// TestReplacedBar checks that a new version of the last bar leaves no trace of the
// earlier one, outcomes included.
func TestReplacedBar(t *testing.T) {
	bars := walk(13, 900, 0.01)
	plain, corrected := NewSeries(signal.D1), NewSeries(signal.D1)
	for i, b := range bars {
		add(t, plain, b)
		wrong := b
		wrong.Close, wrong.High = b.Close*1.03, b.High*1.04
		add(t, corrected, wrong)
		if i > 320 { // so that some outcomes depend on the replaced bar
			assess(t, corrected, Momentum, signal.HighRisk)
		}
		add(t, corrected, b)
	}
	for _, strategy := range technicalNames {
		want, got := assess(t, plain, strategy, signal.HighRisk), assess(t, corrected, strategy, signal.HighRisk)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the replaced bar shows:\n%s", strategy, diff)
		}
	}
}

func TestAppendRefusesAndKeeps(t *testing.T) {
	bars := walk(2, 400, 0.01)
	s := seriesOf(t, signal.H1, bars)
	want := assess(t, s, Breakout, signal.MediumRisk)
	bad := bars[399]
	bad.OpenTime, bad.CloseTime, bad.High = bad.CloseTime, bad.CloseTime+hour, math.NaN()
	if err := s.Append(bad); !errors.Is(err, ErrBadBar) {
		t.Errorf("append NaN: %v, want ErrBadBar", err)
	}
	if err := s.Append(bars[398]); !errors.Is(err, ErrOldBar) {
		t.Errorf("append an old bar: %v, want ErrOldBar", err)
	}
	if got := s.Last(); got != bars[399] {
		t.Errorf("last bar is %+v, want %+v", got, bars[399])
	}
	if diff := cmp.Diff(want, assess(t, s, Breakout, signal.MediumRisk)); diff != "" {
		t.Errorf("a refused bar changed the assessment:\n%s", diff)
	}
}

func TestSync(t *testing.T) {
	bars := walk(4, 900, 0.01)
	replaced := append([]marketdata.Bar(nil), bars[:500]...)
	replaced[499].Close = replaced[499].Low
	other := walk(5, 600, 0.01)
	for i := range other {
		other[i].OpenTime += 2000 * hour
		other[i].CloseTime += 2000 * hour
	}
	for _, c := range []struct {
		name        string
		have, given []marketdata.Bar
		want        []marketdata.Bar // the bars of a series that must be equal
	}{
		{"an empty series takes all", nil, bars, bars},
		{"nothing new", bars[:500], bars[:500], bars[:500]},
		{"what is new is added", bars[:500], bars[100:700], bars[:700]},
		{"an older history changes nothing", bars[:500], bars[:400], bars[:500]},
		{"an empty history changes nothing", bars[:500], nil, bars[:500]},
		{"a history that begins where the series ends", bars[:500], bars[500:600], bars[:600]},
		{"a history that cannot be joined", bars[:500], other, other},
		{"a gap between them", bars[:500], bars[501:900], bars[501:900]},
		{"the last bar was replaced", replaced, bars[:510], bars[:510]},
	} {
		got, want := seriesOf(t, signal.H1, c.have), seriesOf(t, signal.H1, c.want)
		if err := got.Sync(c.given); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(want.bars.bars, got.bars.bars); diff != "" {
			t.Errorf("%s: bars differ:\n%s", c.name, diff)
		}
		if diff := cmp.Diff(assess(t, want, Momentum, signal.HighRisk),
			assess(t, got, Momentum, signal.HighRisk)); diff != "" {
			t.Errorf("%s: assessments differ:\n%s", c.name, diff)
		}
	}
}

func TestWithTick(t *testing.T) {
	bars := walk(17, 500, 0.001)
	fine := seriesOf(t, signal.H1, bars)
	coarse := NewSeries(signal.H1).WithTick(1) // a stop is at least 5 % away
	if err := coarse.Sync(bars); err != nil {
		t.Fatal(err)
	}
	a, b := assess(t, fine, Momentum, signal.LowRisk), assess(t, coarse, Momentum, signal.LowRisk)
	if a.Score != b.Score || a.Prior == b.Prior {
		t.Errorf("scores %v and %v, priors %v and %v: want a history replayed at other distances",
			a.Score, b.Score, a.Prior, b.Prior)
	}
	defer func() {
		if recover() == nil {
			t.Error("the tick changed after the first bar")
		}
	}()
	fine.WithTick(1)
}

func TestMemoryIsBounded(t *testing.T) {
	s := NewSeries(signal.H1)
	for i, b := range walk(6, 4000, 0.01) {
		add(t, s, b)
		if i > 400 && i%50 == 0 {
			assess(t, s, Momentum, signal.LowRisk)
		}
	}
	if n := s.Len(); n < window || n >= window+slack {
		t.Errorf("series holds %d bars, want %d to %d", n, window, window+slack-1)
	}
	if n := max(cap(s.bars.bars), cap(s.bars.history), cap(s.entries.outcomes[0])); n > 2*(window+slack) {
		t.Errorf("there is room for %d bars, readings or outcomes", n)
	}
}

// TestManyGoroutines gives the race detector concurrent calls.
func TestManyGoroutines(t *testing.T) {
	bars := walk(8, 700, 0.01)
	s := seriesOf(t, signal.H1, bars[:400])
	done := make(chan error)
	for range 4 {
		go func() {
			for range 100 {
				a, err := s.Assess(Momentum, signal.MediumRisk)
				if err == nil {
					a.Metadata("BTC", signal.Levels{Entry: 3, Stop: 2, Target: 4}, 0, nil)
				}
				s.Last()
			}
			done <- nil
		}()
	}
	go func() { done <- s.Sync(bars) }()
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestBaseCountsEveryResolvedEntry checks that the base rests on all resolved entries,
// discounted because they overlap.
func TestBaseCountsEveryResolvedEntry(t *testing.T) {
	s := seriesOf(t, signal.H1, walk(3, 1000, 0.01))
	for risk, horizon := range map[signal.RiskLevel]float64{signal.MediumRisk: 24, signal.HighRisk: 48} {
		b, err := s.Base(risk)
		if err != nil {
			t.Fatal(err)
		}
		if want := (window - warmUp - horizon) * 4 / horizon; math.Abs(b.Entries-want) > 1e-9 {
			t.Errorf("%s: %v entries, want %v", risk, b.Entries, want)
		}
	}
}
