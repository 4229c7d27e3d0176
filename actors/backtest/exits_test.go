package backtest

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// minute is the length of the bars of a market with trades.
const minute = 60_000

// traded is a market with trades: a random walk, its 1m bars, and signals that the trades
// have closed.
type traded struct {
	prices  Prices
	signals []*signal.Signal
}

// newTraded returns a market of the given minutes, with a trade every few seconds and a
// signal every ten minutes. Its prices are multiples of 0.01.
func newTraded(seed uint64, minutes int) *traded {
	r := rand.New(rand.NewPCG(seed, 4))
	begin := int64(1_700_000_040_000) / minute * minute
	price := 100.0
	type trade struct {
		at    int64
		price float64
	}
	var trades []trade
	var bars []marketdata.Bar
	for i := range minutes {
		open := begin + int64(i)*minute
		var b marketdata.Bar
		for at := open + int64(r.IntN(4000)); at < open+minute; at += 1 + int64(r.IntN(12_000)) {
			price = math.Round(price*math.Exp(.0008*r.NormFloat64())*100) / 100
			trades = append(trades, trade{at, price})
			if b.CloseTime == 0 {
				b = marketdata.Bar{OpenTime: open, CloseTime: open + minute, Open: price, High: price, Low: price}
			}
			b.High, b.Low, b.Close = max(b.High, price), min(b.Low, price), price
		}
		bars = append(bars, b)
	}
	m := &traded{prices: Prices{Bars: map[signal.Timeframe][]marketdata.Bar{signal.M1: bars}, Speed: 1, Ticks: true}}
	for n := 100; n < len(trades)-2000; n += 100 {
		entry, wide := trades[n], []float64{1, 1, 6}[n/100%3]
		levels := &signal.Levels{Entry: entry.price, Stop: entry.price - .5*wide, Target: entry.price + .75*wide}
		s := &signal.Signal{ID: signal.NewSignalID(), Agent: "trading", Asset: "WALK", Strategy: strategy.Sentiment,
			Timeframe: signal.M1, Risk: signal.MediumRisk, Direction: signal.Long, Levels: levels,
			CreatedAt: time.UnixMilli(entry.at + 1).UTC()}
		if n%200 == 0 {
			s.Direction, s.Levels.Stop, s.Levels.Target = signal.Short, entry.price+.5*wide, entry.price-.75*wide
		}
		s.ExpiresAt = s.CreatedAt.Add(strategy.Lifetime(s.Timeframe, s.Risk, 1))
		exit, at, last := strategy.Exit{}, s.ExpiresAt, entry.price
		var x strategy.Excursion
		for _, t := range trades[n+1:] {
			if t.at > s.ExpiresAt.UnixMilli() {
				exit = strategy.ExitOnExpiry(last)
				break
			}
			last = t.price
			x = x.Observe(s.Direction, *s.Levels, t.price, t.price)
			var ended bool
			if exit, ended = strategy.ExitOnTick(s.Direction, *s.Levels, t.price); ended {
				at = time.UnixMilli(t.at).UTC()
				break
			}
		}
		c := strategy.Close(s, exit, at)
		s.Closing, s.MFE, s.MAE = &c, x.Best, x.Worst
		m.signals = append(m.signals, s)
	}
	return m
}

// replayed returns signals that bars have closed, and the bars.
func replayed(t *testing.T) (*Prices, []*signal.Signal) {
	t.Helper()
	bars := walk(21, 3000)
	o := testOptions(strategy.Breakout)
	r := run(t, bars, o)
	var list []*signal.Signal
	for i := range r.Trades {
		if !r.Trades[i].Open() {
			s := stored(&r.Trades[i], o)
			s.CreatedAt = time.UnixMilli(r.Trades[i].CreatedAt).UTC()
			s.ExpiresAt = s.CreatedAt.Add(r.Trades[i].Lifetime)
			c := strategy.Close(s, r.Trades[i].Exit, time.UnixMilli(r.Trades[i].ClosedAt).UTC())
			s.Closing, s.MFE, s.MAE = &c, r.Trades[i].Excursion.Best, r.Trades[i].Excursion.Worst
			list = append(list, s)
		}
	}
	return &Prices{Bars: map[signal.Timeframe][]marketdata.Bar{signal.H1: bars}, Speed: 1}, list
}

// all returns the differences of both parts of an audit of an end.
func (p *Prices) all(s *signal.Signal) ([]Difference, Compared, string) {
	found, how, reason := p.CheckEnd(s)
	return append(CheckClosing(s), found...), how, reason
}

func TestConsistentEndsPassTheAudit(t *testing.T) {
	t.Parallel()
	byBars, list := replayed(t)
	byTicks := newTraded(1, 4000)
	reasons := map[Compared]map[signal.CloseReason]int{Replayed: {}, Within: {}}
	check := func(p *Prices, s *signal.Signal, want Compared) {
		t.Helper()
		found, how, reason := p.all(s)
		if len(found) > 0 || how != want || reason != "" {
			t.Errorf("%s of %s, closed %s at %v as %s: %d, %q, %+v", s.Direction, s.CreatedAt, s.Closing.At,
				*s.Closing.ExitPrice, s.Closing.Reason, how, reason, found)
		}
		reasons[how][s.Closing.Reason]++
	}
	for _, s := range list {
		check(byBars, s, Replayed)
	}
	for _, s := range byTicks.signals {
		check(&byTicks.prices, s, Within)
	}
	for how, of := range reasons {
		if len(of) != 3 {
			t.Errorf("%d: signals ended by %v only", how, of)
		}
	}
	// Coarser bars find fewer faults, and no false ones.
	fine := byTicks.prices.Bars[signal.M1]
	coarse := Prices{Speed: 1, Ticks: true,
		Bars: map[signal.Timeframe][]marketdata.Bar{signal.M1: fine[3000:], signal.M5: joined(fine, 5)}}
	for _, s := range byTicks.signals {
		check(&coarse, s, Within)
	}
}

// joined returns the bars joined to ones that are n times as long.
func joined(bars []marketdata.Bar, n int) []marketdata.Bar {
	var list []marketdata.Bar
	for _, b := range bars {
		length := int64(n) * minute
		if k := len(list); k == 0 || b.OpenTime >= list[k-1].CloseTime {
			b.OpenTime = b.OpenTime / length * length
			b.CloseTime = b.OpenTime + length
			list = append(list, b)
		} else {
			last := &list[k-1]
			last.High, last.Low, last.Close = max(last.High, b.High), min(last.Low, b.Low), b.Close
		}
	}
	return list
}

// closed returns the first signal of a list that ended for a reason after some bars.
func closed(t *testing.T, list []*signal.Signal, reason signal.CloseReason, after time.Duration) *signal.Signal {
	t.Helper()
	for _, s := range list {
		if s.Closing.Reason == reason && s.Closing.At.Sub(s.CreatedAt) >= after {
			return s
		}
	}
	t.Fatalf("no signal ended by %s", reason)
	return nil
}

// as returns s closed in another way, with consistent figures.
func as(s *signal.Signal, reason signal.CloseReason, price float64, at time.Time) {
	c := strategy.Close(s, strategy.Exit{Reason: reason, Price: price}, at)
	s.Closing = &c
}

func TestAuditReportsEndsThatBarsContradict(t *testing.T) {
	t.Parallel()
	type falsify = func(s *signal.Signal, bar time.Duration)
	target := func(s *signal.Signal, _ time.Duration) { as(s, signal.TakeProfit, s.Levels.Target, s.Closing.At) }
	stop := func(s *signal.Signal, _ time.Duration) { as(s, signal.StopLoss, s.Levels.Stop, s.Closing.At) }
	expired := func(s *signal.Signal, _ time.Duration) { as(s, signal.Expired, s.Levels.Entry, s.ExpiresAt) }
	open := func(s *signal.Signal, _ time.Duration) { s.Closing = nil }
	moved := func(n int) falsify {
		return func(s *signal.Signal, bar time.Duration) { s.Closing.At = s.Closing.At.Add(time.Duration(n) * bar) }
	}
	// left ends it by its agent at the entry, some bars after its end.
	left := func(n int) falsify {
		return func(s *signal.Signal, bar time.Duration) {
			at := s.Closing.At.Add(time.Duration(n) * bar)
			s.Metadata = []byte(`{"exit_requested_at":"` + at.UTC().Format(signal.TimeLayout) + `"}`)
			as(s, signal.AgentExit, s.Levels.Entry, at.Add(time.Second))
		}
	}
	const bars, ticks = true, false
	for _, c := range []struct {
		name    string
		byBars  bool
		reason  signal.CloseReason
		falsify falsify
		member  string
	}{
		{"won, not lost", bars, signal.StopLoss, target, "close_reason"},
		{"lost, not won", bars, signal.TakeProfit, stop, "close_reason"},
		{"a better price", bars, signal.Expired, func(s *signal.Signal, _ time.Duration) {
			as(s, signal.Expired, *s.Closing.ExitPrice+.01, s.Closing.At)
		}, "exit_price"},
		{"a bar later", bars, signal.StopLoss, moved(1), "closed_at"},
		{"a bar earlier", bars, signal.TakeProfit, moved(-1), "closed_at"},
		{"expired and not lost", bars, signal.StopLoss, expired, "close_reason"},
		{"open and lost", bars, signal.StopLoss, open, "status"},
		{"open and expired", bars, signal.Expired, open, "status"},
		{"longer life", bars, signal.StopLoss, func(s *signal.Signal, bar time.Duration) {
			s.ExpiresAt = s.ExpiresAt.Add(bar)
		}, "expires_at"},
		{"left and lost before", bars, signal.StopLoss, left(1), "close_reason"},
		{"left in the bar that lost", bars, signal.StopLoss, func(s *signal.Signal, bar time.Duration) {
			s.Closing.At = s.Closing.At.Add(-bar / 2)
			left(0)(s, bar)
		}, "close_reason"},
		{"left and won before", bars, signal.TakeProfit, left(1), "close_reason"},
		{"left and lost before", ticks, signal.StopLoss, left(2), "close_reason"},
		{"left and won before", ticks, signal.TakeProfit, left(2), "close_reason"},
		{"left at no time", ticks, signal.StopLoss, func(s *signal.Signal, _ time.Duration) {
			as(s, signal.AgentExit, s.Levels.Entry, s.Closing.At)
		}, "metadata.exit_requested_at"},
		{"left after its end", ticks, signal.StopLoss, func(s *signal.Signal, bar time.Duration) {
			left(-4)(s, bar)
			s.Closing.At = s.Closing.At.Add(-bar)
		}, "metadata.exit_requested_at"},
		{"won, not lost", ticks, signal.StopLoss, target, "exit_price"},
		{"lost, not won", ticks, signal.TakeProfit, stop, "exit_price"},
		{"a worse stop", ticks, signal.StopLoss, func(s *signal.Signal, _ time.Duration) {
			as(s, signal.StopLoss, s.Levels.Stop+5*(s.Levels.Stop-s.Levels.Entry), s.Closing.At)
		}, "exit_price"},
		{"later", ticks, signal.StopLoss, moved(3), "closed_at"},
		{"earlier", ticks, signal.TakeProfit, moved(-6), "exit_price"},
		{"expired and not lost", ticks, signal.StopLoss, expired, "closed_at"},
		{"expired early", ticks, signal.Expired, moved(-1), "closed_at"},
		{"expired late", ticks, signal.Expired, moved(4), "closed_at"},
		{"expired at a better price", ticks, signal.Expired, func(s *signal.Signal, _ time.Duration) {
			as(s, signal.Expired, *s.Closing.ExitPrice*1.003, s.Closing.At)
		}, "exit_price"},
		{"no price", ticks, signal.Expired, func(s *signal.Signal, _ time.Duration) { s.Closing.ExitPrice = nil },
			"exit_price"},
		{"open and lost", ticks, signal.StopLoss, open, "status"},
		{"open and expired", ticks, signal.Expired, open, "status"},
		{"went farther", ticks, signal.StopLoss, func(s *signal.Signal, _ time.Duration) { s.MFE += .5 }, "mfe"},
		{"went less far", ticks, signal.TakeProfit, func(s *signal.Signal, _ time.Duration) { s.MAE = 0 }, "mae"},
	} {
		prices, list, bar := &Prices{}, []*signal.Signal(nil), time.Minute
		if c.byBars {
			prices, list = replayed(t)
			bar = time.Hour
		} else {
			m := newTraded(1, 4000)
			prices, list = &m.prices, m.signals
		}
		s := closed(t, list, c.reason, 7*bar)
		c.falsify(s, bar)
		found, _, reason := prices.all(s)
		if !has(found, c.member) {
			t.Errorf("%s (by bars: %v): the audit reports %+v %q, want %s", c.name, c.byBars, found, reason, c.member)
		}
	}
}

func TestEndsThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	m := newTraded(2, 1000)
	for name, c := range map[string]struct {
		change func(p *Prices, s *signal.Signal)
		want   string
	}{
		"content": {func(_ *Prices, s *signal.Signal) { s.Levels = nil }, "no prices"},
		"old": {func(p *Prices, _ *signal.Signal) { p.Bars[signal.M1] = p.Bars[signal.M1][900:] },
			"no longer stored"},
		"a gap": {func(p *Prices, _ *signal.Signal) { p.Bars[signal.M1] = p.Bars[signal.M1][:20] }, "of the moment"},
		"stale": {func(_ *Prices, s *signal.Signal) { s.Metadata = []byte(`{"stale_exit":true}`) }, "want of prices"},
	} {
		prices := m.prices
		prices.Bars = map[signal.Timeframe][]marketdata.Bar{signal.M1: m.prices.Bars[signal.M1]}
		s := *m.signals[1]
		c.change(&prices, &s)
		if found, how, reason := prices.CheckEnd(&s); len(found) > 0 || how != NotCompared ||
			!strings.Contains(reason, c.want) {
			t.Errorf("%s: %+v, %d, %q", name, found, how, reason)
		}
	}
	// A signal that its agent has ended before a level was touched is compared no further, whatever its price.
	for name, byBars := range map[string]bool{"by bars": true, "by trades": false} {
		prices, list, bar := &m.prices, m.signals, time.Minute
		if byBars {
			prices, list = replayed(t)
			bar = time.Hour
		}
		left := *closed(t, list, signal.StopLoss, 7*bar)
		at := left.Closing.At.Add(-3 * bar)
		left.Metadata = []byte(`{"exit_requested_at":"` + at.UTC().Format(signal.TimeLayout) + `"}`)
		as(&left, signal.AgentExit, left.Levels.Stop, at.Add(time.Second))
		if found, how, reason := prices.all(&left); len(found) > 0 || how != NotCompared ||
			!strings.Contains(reason, "its agent") {
			t.Errorf("left %s: %+v, %d, %q", name, found, how, reason)
		}
		if _, reason := prices.AgainstBacktest(&left, 0); !strings.Contains(reason, "its agent") {
			t.Errorf("left %s, against a backtest: %q", name, reason)
		}
	}
	// If bars have more prices than published trades, only the bar of the end is checked.
	m.prices.Sparse = true
	lost := closed(t, m.signals, signal.StopLoss, 7*time.Minute)
	as(lost, signal.Expired, lost.Levels.Entry, lost.ExpiresAt)
	if found, _, _ := m.prices.CheckEnd(lost); strings.Contains(text(found), "stop_loss in the bar") {
		t.Errorf("by bars with more prices than trades: %+v", found)
	}
}

func text(found []Difference) string {
	var b strings.Builder
	for _, d := range found {
		b.WriteString(d.Member + " " + d.Stored + " " + d.Now + "\n")
	}
	return b.String()
}

// TestSparsePricesMayHaveMissedExcursions checks that with rare trades an excursion may be
// smaller than that of the bars.
func TestSparsePricesMayHaveMissedExcursions(t *testing.T) {
	t.Parallel()
	m := newTraded(1, 4000)
	s := closed(t, m.signals, signal.StopLoss, 7*time.Minute)
	s.MFE = 0
	if found, _, _ := m.prices.CheckEnd(s); !strings.Contains(text(found), "mfe") {
		t.Fatalf("with all trades the audit reports %+v: the signal has no excursion to miss", found)
	}
	m.prices.Sparse = true
	if found, _, _ := m.prices.CheckEnd(s); strings.Contains(text(found), "mfe") {
		t.Errorf("with few trades the audit reports %+v", found)
	}
}

// TestSignalAtTheOpenOfTheOldestBar checks that a signal made when a bar opens begins with
// that bar.
func TestSignalAtTheOpenOfTheOldestBar(t *testing.T) {
	t.Parallel()
	m := newTraded(1, 400)
	s := *m.signals[0]
	oldest := m.prices.Bars[signal.M1][0].OpenTime
	for made, want := range map[int64]bool{oldest - 1: false, oldest: true, oldest + 1: true} {
		s.CreatedAt = time.UnixMilli(made).UTC()
		if _, ok := m.prices.lifeOf(&s); ok != want {
			t.Errorf("made %d ms after the oldest bar opens: its life is found: %v", made-oldest, ok)
		}
	}
}
