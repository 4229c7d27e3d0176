package backtest

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// TestAConfidenceWaitsForTheBarOfItsPrice checks a confidence by a trade after the newest bar.
func TestAConfidenceWaitsForTheBarOfItsPrice(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	bar := func(i int, low, high float64) marketdata.Bar {
		open := begin.Add(time.Duration(i) * time.Minute).UnixMilli()
		return marketdata.Bar{OpenTime: open, CloseTime: open + 59_999, Open: low, High: high, Low: low, Close: high}
	}
	s := &signal.Signal{Agent: "trading", Direction: signal.Long, Timeframe: signal.M1, Risk: signal.LowRisk,
		CreatedAt: begin.Add(30 * time.Second), ExpiresAt: begin.Add(time.Hour), FirstConfidence: .43,
		Levels: &signal.Levels{Entry: 100, Stop: 98, Target: 103}}
	p := &Prices{Ticks: true, Bars: map[signal.Timeframe][]marketdata.Bar{
		signal.M1: {bar(0, 99.9, 100.1), bar(1, 99.9, 100.1)}}}
	at := begin.Add(2 * time.Minute).UnixMilli()
	told := strategy.Rescore(.43, *s.Levels, s.Timeframe, s.Risk, p.left(s.CreatedAt.UnixMilli(), s.ExpiresAt.UnixMilli(),
		at-1), 101.5) // of a trade in the third bar

	if found, how, reason := p.CheckPublished(s, told, at, false); how != NotCompared || reason != whyUnfinished {
		t.Errorf("before the bar is over: %v, %v, %q", found, how, reason)
	}
	for high, want := range map[float64]int{101.6: 0, 100.2: 1} {
		next := *p
		next.Bars = map[signal.Timeframe][]marketdata.Bar{signal.M1: append(p.Bars[signal.M1], bar(2, 99.9, high))}
		if found, how, _ := next.CheckPublished(s, told, at, false); how != Within || len(found) != want {
			t.Errorf("with a bar up to %v: %v, %v; want %d differences", high, found, how, want)
		}
	}
}

// Every end by trades is that of a backtest, or has a reason. A trade after the last bar before the expiry is one.
func TestEndsByTradesHaveReasons(t *testing.T) {
	t.Parallel()
	reasons := map[string]int{}
	for seed := range uint64(4) {
		m := newTraded(seed, 3000)
		for _, s := range m.signals {
			end, reason := m.prices.AgainstBacktest(s, 0)
			if len(end.Differences) > 0 || reason != "" {
				t.Errorf("seed %d: %s of %v that expires at %v: closed at %v as %s: %q, %+v", seed, s.Direction, s.CreatedAt,
					s.ExpiresAt, s.Closing.At, s.Closing.Reason, reason, end.Differences)
			}
			reasons[end.Explained]++
		}
	}
	if reasons[byTrade] == 0 || reasons[bySlippage] == 0 || reasons[""] == 0 {
		t.Errorf("explained: %v", reasons)
	}
}
