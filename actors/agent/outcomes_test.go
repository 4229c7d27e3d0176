package agent

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// fakeOutcomes has one pool, which tests fill.
type fakeOutcomes struct {
	pool *strategy.Pool
	err  error

	mu    sync.Mutex
	found map[string][]strategy.Outcome
}

func newOutcomes() *fakeOutcomes {
	return &fakeOutcomes{pool: strategy.NewPool(0), found: map[string][]strategy.Outcome{}}
}

func (f *fakeOutcomes) Pool(context.Context, signal.Timeframe, int64) (*strategy.Pool, error) {
	return f.pool, f.err
}

func (f *fakeOutcomes) Found(_ signal.Timeframe, asset string, o strategy.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found[asset] = append(f.found[asset], o)
}

// fill adds n outcomes of each of many assets, which ended long before the bars of tests.
func (f *fakeOutcomes) fill(assets, n int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		for a := range assets {
			bar := int64(i+1) * 60_000 // an hour at 60 times real time
			o := strategy.Outcome{Bar: bar, Ended: bar + 1, At: bar + 1}
			for s := range o.Bins {
				o.Bins[s] = uint8(r.IntN(64))
			}
			for risk := range o.R[0] {
				o.R[0][risk], o.R[1][risk] = int8(r.IntN(100)-58), int8(r.IntN(100)-58)
			}
			f.pool.Add(strategy.OutcomeKey("test", 1, string(rune('A'+a))), o)
		}
	}
}

const keyOfBTC = "simulated*60/BTC"

// TestRunsEstimateFromTheSharedPool checks that the outcomes of an asset count and are stored
// although the pool has none, that those of others count, and that a series begins again
// with another pool.
func TestRunsEstimateFromTheSharedPool(t *testing.T) {
	t.Parallel()
	seen := history()
	alone := newTrader(at(&seen), time.Now, noCost).must(t, request("BTC"))
	f := newOutcomes()
	tr := newTrader(at(&seen), time.Now, noCost)
	tr.outcomes = f
	if diff := cmp.Diff(alone, tr.must(t, request("BTC"))); diff != "" {
		t.Errorf("with an empty pool (-alone +pooled):\n%s", diff)
	}
	if n := len(f.found[keyOfBTC]); len(f.found) != 1 || n < 1000 {
		t.Errorf("%d outcomes were found of %d assets", n, len(f.found))
	}

	f.pool = strategy.NewPool(0)
	f.fill(3, 2000)
	clear(f.found)
	pooled := tr.must(t, request("BTC"))
	var own, all struct{ Sample float64 }
	if json.Unmarshal(alone.Metadata, &own) != nil || json.Unmarshal(pooled.Metadata, &all) != nil ||
		all.Sample < 1.5*own.Sample {
		t.Errorf("the sample is %v alone, %v with three others", own.Sample, all.Sample)
	}
	if n := len(f.found[keyOfBTC]); n < 1000 {
		t.Errorf("%d outcomes were found again with another pool", n)
	}
	clear(f.found)
	tr.must(t, request("BTC"))
	if len(f.found) != 0 {
		t.Error("outcomes were found twice")
	}
}

func TestRunsFailWithoutAPool(t *testing.T) {
	t.Parallel()
	seen := history()
	tr := newTrader(at(&seen), time.Now, noCost)
	tr.outcomes = &fakeOutcomes{err: context.DeadlineExceeded}
	r := request("BTC")
	_, err := tr.Evaluate(t.Context(), &r)
	if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.DataUnavailable || !e.Passing {
		t.Errorf("got %v, want a passing DATA_UNAVAILABLE", err)
	}
}

// BenchmarkRunInPool is a run among 30 assets with 5,000 outcomes each: at the price and the
// bar of the run before, at a new price, at a new bar, and the first of a process.
func BenchmarkRunInPool(b *testing.B) {
	f := newOutcomes()
	f.fill(30, strategy.MaxOutcomes)
	seen := history()
	all := seen.Bars
	begin := func() *trader {
		tr := newTrader(at(&seen), time.Now, noCost)
		tr.outcomes = f
		return tr
	}
	run := func(b *testing.B, tr *trader, prepare func(i int, seen *market.Snapshot)) {
		i := 0
		for b.Loop() {
			i++
			prepare(i, &seen)
			tr.must(b, request("BTC"))
		}
	}
	b.Run("warm", func(b *testing.B) { run(b, begin(), func(int, *market.Snapshot) {}) })
	b.Run("new price", func(b *testing.B) {
		run(b, begin(), func(i int, seen *market.Snapshot) { seen.Last.Price = 67000 + float64(i%100_000)/1000 })
	})
	b.Run("new bar", func(b *testing.B) {
		tr := begin()
		run(b, tr, func(i int, seen *market.Snapshot) {
			n := 1000 + i%400
			if seen.Bars = all[:n]; n == 1000 {
				b.StopTimer()
				clear(tr.kept)
				tr.must(b, request("BTC"))
				b.StartTimer()
			}
		})
		seen.Bars = all
	})
	b.Run("first", func(b *testing.B) {
		tr := begin()
		run(b, tr, func(int, *market.Snapshot) { clear(tr.kept) })
	})
}
