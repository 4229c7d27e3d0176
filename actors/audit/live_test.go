package audit

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// rescored sets the final confidence of the signals by the rules of live ones, and returns the
// updates that were published on the way.
func (s *stock) rescored() (all published) {
	for _, x := range s.signals {
		x.Confidence = x.FirstConfidence
		for _, b := range s.bars {
			if b.CloseTime <= x.CreatedAt.UnixMilli() || b.CloseTime >= x.Closing.At.UnixMilli() {
				continue
			}
			at := time.UnixMilli(b.CloseTime)
			left := float64(x.ExpiresAt.Sub(at)) / float64(x.ExpiresAt.Sub(x.CreatedAt))
			now := strategy.Rescore(x.FirstConfidence, *x.Levels, x.Timeframe, x.Risk, left, b.Close)
			if strategy.Moved(x.Confidence, now) {
				x.Confidence = now
				all = append(all, Update{x.ID, now, at.Add(20 * time.Millisecond)})
			}
		}
	}
	return all
}

type published []Update

func (p published) EachUpdate(_ context.Context, _ int, f func(Update)) error {
	for _, u := range p {
		f(u)
	}
	return nil
}

func TestPublishedConfidencesAreRecomputed(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	updates := s.rescored()
	check := func() *Report {
		from := s.sources()
		from.Updates = updates
		r, _, err := Run(t.Context(), from, Options{Partitions: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := check()
	if p := r.Published; r.Differences() > 0 || p.Final != len(s.signals) || p.Updates != len(updates) ||
		p.Replayed != p.Final+p.Updates || p.Updates < 50 {
		t.Errorf("untouched: %+v %+v", p, r.Differing)
	}
	s.signals[4].Confidence += .01
	updates[7].Confidence -= .01
	named := map[signal.SignalID]string{}
	for _, d := range check().Differing {
		named[d.ID] += d.Differences[0].Member + d.Differences[len(d.Differences)-1].Member
	}
	if !strings.Contains(named[s.signals[4].ID], "final_confidence") ||
		!strings.Contains(named[updates[7].ID], "confidence at ") {
		t.Errorf("named: %v", named)
	}
	s.signals[4].Agent = "weather"
	if n := check().Published.NotCompared; len(n) != 1 {
		t.Errorf("not compared: %v", n)
	}
}

// What agents of accounts have made is not recomputed, with any expiry. Its ends and confidences are compared.
func TestSignalsOfOwnAgents(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	for _, x := range s.signals {
		x.Agent, x.Strategy = "my_agent", strategy.Momentum
		if x.Closing.Reason != signal.Expired {
			x.ExpiresAt = x.ExpiresAt.Add(time.Hour)
		}
	}
	text := *s.signals[0]
	text.ID, text.Levels, text.Closing = signal.NewSignalID(), nil, nil
	updates := s.rescored()
	s.signals = append(s.signals, &text)
	check := func() *Report {
		from := s.sources()
		from.Updates = updates
		r, _, err := Run(t.Context(), from, Options{Partitions: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r, closed := check(), len(s.signals)-1
	if r.Differences() > 0 || r.Recomputed != 0 || r.NotRecomputed[reasonOwn] != closed+1 || r.Replayed != closed ||
		r.Live.Same != closed || r.Published.Replayed != closed+len(updates) {
		t.Errorf("untouched: %+v", r)
	}
	exit, rescored := s.signals[3], s.signals[4]
	c := strategy.Close(exit, strategy.Exit{Reason: signal.TakeProfit, Price: exit.Levels.Target},
		exit.Closing.At.Add(-time.Hour))
	exit.Closing = &c
	rescored.Confidence += .01
	named := map[signal.SignalID][]backtest.Difference{}
	for _, d := range check().Differing {
		named[d.ID] = d.Differences
	}
	if len(named) != 2 || !has(named[exit.ID], "closed_at") || !has(named[rescored.ID], "final_confidence") {
		t.Errorf("named: %v", named)
	}
}

// ticking is a stock whose asset has trades.
type ticking struct{ *stock }

func (s ticking) Asset(ctx context.Context, key string) (marketdata.Asset, marketdata.Live, error) {
	record, live, err := s.stock.Asset(ctx, key)
	live.Last.Time = s.bars[len(s.bars)-1].CloseTime
	return record, live, err
}

// TestLiveEndsAgainstABacktest replays signals that were closed by bars, of which none differs, and
// then some that were closed by trades.
func TestLiveEndsAgainstABacktest(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	s.rescored()
	n := len(s.signals)
	if l := auditOf(t, s).Live; l.Closed != n || l.Replayed != n || l.Same != n || l.Unexplained != 0 {
		t.Errorf("on stored bars: %+v", l)
	}
	closeAt := func(x *signal.Signal, reason signal.CloseReason, price float64, at time.Time) {
		c := strategy.Close(x, strategy.Exit{Reason: reason, Price: price}, at)
		x.Closing = &c
	}
	var lost, won *signal.Signal
	for _, x := range s.signals {
		if x.Closing.Reason == signal.StopLoss && lost == nil {
			lost = x
		} else if x.Closing.Reason == signal.TakeProfit && won == nil {
			won = x
		}
	}
	at := lost.Closing.At.Add(-time.Minute)
	closeAt(lost, signal.StopLoss, lost.Levels.Stop+.01*(lost.Levels.Stop-lost.Levels.Entry), at)
	closeAt(won, signal.StopLoss, won.Levels.Stop, won.Closing.At.Add(-time.Minute))
	from := s.sources()
	from.Prices = ticking{s}
	r, _, err := Run(t.Context(), from, Options{Partitions: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Live; l.Explained["slippage: it closed at a trade beyond its stop"] != 1 || l.Unexplained == 0 {
		t.Errorf("with trades: %+v", l)
	}
	for _, x := range r.Differing {
		if x.ID == lost.ID && has(x.Differences, "in a backtest") {
			t.Errorf("slippage differs: %+v", x)
		}
	}
	if later := (Options{Partitions: []int{0}, ClosedSince: s.signals[n-1].ExpiresAt.Add(time.Hour)}); true {
		if r, _, err := Run(t.Context(), from, later); err != nil || r.Live.Closed != 0 {
			t.Errorf("closed before the last audit: %+v %v", r.Live, err)
		}
	}
}

// TestSlippageOfTheTimeframe checks what a backtest pays for each stop that lies inside a bar.
func TestSlippageOfTheTimeframe(t *testing.T) {
	t.Parallel()
	for tf, slippage := range map[signal.Timeframe]float64{signal.M1: .081, signal.M5: .031, signal.H1: .008} {
		s := newStockOf(t, tf)
		stops := 0
		for _, x := range s.signals {
			if x.Closing.Reason == signal.StopLoss && *x.Closing.ExitPrice == x.Levels.Stop {
				stops++
			}
		}
		from := s.sources()
		from.Slippage = .008
		r, _, err := Run(t.Context(), from, Options{Partitions: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Live.SumR-r.Live.BacktestR, float64(stops)*slippage; stops < 5 ||
			r.Live.Replayed != len(s.signals) || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %d stops cost %.4f R, want %.4f: %+v", tf, stops, got, want, r.Live)
		}
	}
}

func has(found []backtest.Difference, part string) bool {
	for _, d := range found {
		if strings.Contains(d.Member, part) {
			return true
		}
	}
	return false
}
