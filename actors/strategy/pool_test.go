package strategy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// randomize gives o strengths, directions and results.
func randomize(o *Outcome, r *rand.Rand) {
	for s := range o.Bins {
		o.Bins[s] = uint8(r.IntN(2 * strengthBins))
	}
	for d := range o.R {
		for risk := range o.R[d] {
			o.R[d][risk] = int8(r.IntN(121) - 60)
		}
	}
}

// outcomesIn returns the number of outcomes in t.
func outcomesIn(t *tallies) (n int) {
	for i := range t[0] {
		n += int(t[0][i].at(0).n)
	}
	return n
}

// TestViewCountsWhatIsKnown compares a view that moves on with one that begins at the same
// time, and with a count over all outcomes.
func TestViewCountsWhatIsKnown(t *testing.T) {
	const assets, steps = 3, 9000
	r := rand.New(rand.NewPCG(3, 4))
	pool := NewPool(MaxOutcomes)
	moving := view{pool: pool, own: "A1"}
	var added [assets][]Outcome
	for i := range int64(steps) {
		a := r.IntN(assets)
		o := Outcome{Bar: i * 1000, At: i*1000 + 500}
		o.Ended = o.At
		randomize(&o, r)
		if a == 1 || r.IntN(4) == 0 { // the others have fewer, so that windows differ
			added[a] = append(added[a], o)
			pool.Add(fmt.Sprint("A", a), o)
		}
		if i%500 != 499 {
			continue
		}
		at := i * 1000
		moving.advance(at, 1000)
		fresh := view{pool: pool, own: "A1"}
		fresh.advance(at, 1000)
		if diff := cmp.Diff(fresh.all, moving.all); diff != "" {
			t.Fatalf("after %d: the way matters:\n%s", i, diff)
		}
		if diff := cmp.Diff(fresh.past, moving.past, cmp.AllowUnexported(past{}, block{}),
			cmpopts.IgnoreFields(past{}, "last")); diff != "" ||
			fresh.results != moving.results {
			t.Fatalf("after %d: the way matters for the past:\n%s", i, diff)
		}
		var all, mine tallies
		for a, list := range added {
			for len(list) > 0 && list[len(list)-1].At > at-outcomeLag {
				list = list[:len(list)-1]
			}
			for _, o := range list[max(0, len(list)-MaxOutcomes):] {
				x := countedOf(&o)
				all.add(&x, &o.Bins, 1)
				if a == 1 {
					mine.add(&x, &o.Bins, 1)
				}
			}
		}
		if diff := cmp.Diff(all, fresh.all); diff != "" {
			t.Fatalf("after %d: all:\n%s", i, diff)
		}
		if diff := cmp.Diff(mine, moving.mine); diff != "" {
			t.Fatalf("after %d: own:\n%s", i, diff)
		}
	}
}

func TestPoolRefusesRepeatedOutcomes(t *testing.T) {
	pool := NewPool(0)
	for _, bar := range []int64{1, 2, 2, 1, 3} {
		pool.Add("A", Outcome{Bar: bar, At: 10 - bar})
	}
	var bars, times []int64
	for _, o := range pool.of["A"].kept {
		bars, times = append(bars, o.Bar), append(times, o.At)
	}
	if diff := cmp.Diff([]int64{1, 2, 3}, bars); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{9, 9, 9}, times); diff != "" {
		t.Errorf("an outcome is known before an earlier one:\n%s", diff)
	}
	if newest := pool.Newest("A"); newest != 3 || pool.Newest("B") != 0 {
		t.Errorf("the newest bar is %d", newest)
	}
}

// TestPoolKeepsTheNewest checks that old outcomes are dropped over all assets, and that a
// view then counts the newest ones that are left.
func TestPoolKeepsTheNewest(t *testing.T) {
	const keep = 3000
	pool := NewPool(keep)
	moving := view{pool: pool}
	for i := range int64(4 * keep) {
		pool.Add(fmt.Sprint(i%7*(1-i/(2*keep))), Outcome{Bar: i, At: i}) // later only one asset
		if pool.kept > keep+outcomeSlack {
			t.Fatalf("%d outcomes are kept", pool.kept)
		}
		if i%100 == 99 {
			moving.advance(i+outcomeLag, 1000)
			if n, want := outcomesIn(&moving.all), min(int(i)+1, keep); n < want {
				t.Fatalf("after %d: %d outcomes count, want at least %d", i, n, want)
			}
		}
	}
}

// TestViewCountsTheNewestOfAllAssets checks the limit over all assets, which does not
// depend on when a view began.
func TestViewCountsTheNewestOfAllAssets(t *testing.T) {
	const assets = MaxPooled/MaxOutcomes + 10
	pool := NewPool(0)
	moving := view{pool: pool, own: "A0"}
	for i := range int64((MaxOutcomes - 500) * assets) {
		asset := i % assets
		if asset == 0 && i > MaxPooled/2 {
			continue // it has no more outcomes, so that all of its own become too old
		}
		pool.Add(fmt.Sprint("A", asset), Outcome{Bar: i, At: i})
		if i%50_000 == 0 {
			moving.advance(i+outcomeLag, 1000)
		}
	}
	const end = int64((MaxOutcomes-500)*assets) + outcomeLag
	moving.advance(end, 1000)
	fresh := view{pool: pool, own: "A0"}
	fresh.advance(end, 1000)
	if n := outcomesIn(&fresh.all); n != MaxPooled {
		t.Errorf("%d outcomes count, want %d", n, MaxPooled)
	}
	if diff := cmp.Diff(fresh.all, moving.all); diff != "" {
		t.Errorf("the way matters:\n%s", diff)
	}
	if diff := cmp.Diff(fresh.mine, moving.mine); diff != "" {
		t.Errorf("the way matters for own outcomes:\n%s", diff)
	}
}

// TestOwnOutcomesCountBeforeTheyAreStored compares a series whose outcomes are stored late,
// by batches, with one that has a pool of its own: the assessments are the same, also with
// outcomes of another asset.
func TestOwnOutcomesCountBeforeTheyAreStored(t *testing.T) {
	bars, others := walk(5, 2600, 0.01), walk(6, 2600, 0.01)
	stored, replayed := NewPool(0), NewPool(0)
	another := NewSeries(signal.H1).InPool(NewPool(0), "B", func(o Outcome) {
		stored.Add("B", o)
		replayed.Add("B", o)
	})
	for _, b := range others {
		add(t, another, b)
	}
	another.Resolve()
	var found []Outcome
	live := NewSeries(signal.H1).InPool(stored, "A", func(o Outcome) { found = append(found, o) })
	alone := NewSeries(signal.H1).InPool(replayed, "A", nil)
	for i, b := range bars {
		add(t, live, b)
		add(t, alone, b)
		if i < 700 || i%5 != 0 {
			continue
		}
		for _, name := range technicalNames {
			want, got := assess(t, alone, name, signal.LowRisk), assess(t, live, name, signal.LowRisk)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("bar %d (-of its own +stored late):\n%s", i, diff)
			}
		}
		if i%300 == 0 {
			for _, o := range found[:len(found)-3] { // one batch
				o.At = b.CloseTime + 500
				stored.Add("A", o)
			}
			found = found[len(found)-3:]
		}
	}
	if n := len(live.entries.view.recent); n == 0 || n > 400 {
		t.Errorf("%d outcomes are not replaced by stored ones", n)
	}
	if n := outcomesIn(&live.entries.view.mine); n < 1400 {
		t.Errorf("only %d outcomes count", n)
	}
}

// TestReplayedPoolIsWalkForward checks the copy of a pool for a backtest.
func TestReplayedPoolIsWalkForward(t *testing.T) {
	pool := NewPool(0)
	for i := range int64(10) {
		pool.Add("A", Outcome{Bar: i, Ended: i + 5, At: 1000})
		pool.Add("B", Outcome{Bar: i, Ended: i + 3, At: 2000})
	}
	bars := make([]marketdata.Bar, warmUp+1)
	bars[warmUp].OpenTime = 4
	got := pool.Replayed("A", bars)
	if n := len(got.of["A"].kept); n != 4 {
		t.Errorf("%d outcomes of the asset itself, want those of 4 bars", n)
	}
	if n := len(got.of["B"].kept); n != 10 {
		t.Errorf("%d outcomes of the other, want all 10", n)
	}
	v := view{pool: got}
	v.advance(outcomeLag+7, 1000) // A: ended by 7 are bars 0 to 2; B: bars 0 to 4
	if n := outcomesIn(&v.all); n != 8 {
		t.Errorf("%d outcomes count, want 8", n)
	}
}

// TestSeriesReportsEachOutcomeOnce checks the outcomes that a series finds against those
// of its bars, also where the last bar is replaced and old bars are dropped.
func TestSeriesReportsEachOutcomeOnce(t *testing.T) {
	bars := walk(5, 3000, 0.01)
	var found []Outcome
	s := NewSeries(signal.H1).InPool(NewPool(0), "A", func(o Outcome) { found = append(found, o) })
	for i, b := range bars {
		preliminary := b
		preliminary.High, preliminary.Low = b.High*1.2, b.Low*0.8
		add(t, s, preliminary)
		if i%7 == 0 {
			s.Resolve()
		}
		add(t, s, b)
	}
	s.Resolve()
	plain := NewPool(0)
	whole := NewSeries(signal.H1).InPool(plain, "A", nil)
	for _, b := range bars {
		add(t, whole, b)
	}
	whole.Resolve()
	if want := len(bars) - warmUp - Horizon(signal.H1, signal.HighRisk) - 1; len(found) != want {
		t.Errorf("%d outcomes, want %d", len(found), want)
	}
	var kept []Outcome
	for _, o := range plain.of["A"].kept {
		kept = append(kept, o.Outcome)
	}
	if diff := cmp.Diff(kept, found); diff != "" {
		t.Errorf("outcomes differ from those of a series without replaced bars:\n%s", diff)
	}
}

// TestReplayedPoolCountsByTime checks that outcomes that a backtest adds do not displace
// those of others, although these are in the pool before.
func TestReplayedPoolCountsByTime(t *testing.T) {
	const assets, each = 40, MaxOutcomes
	pool := NewPool(0)
	for i := range int64(assets * each) {
		pool.Add(fmt.Sprint("B", i%assets), Outcome{Bar: i, Ended: i, At: i})
	}
	replayed := pool.Replayed("A", nil)
	v := view{pool: replayed, own: "A"}
	for i := int64(999); i < assets*each; i += 1000 {
		replayed.Add("A", Outcome{Bar: i, Ended: i, At: i})
		v.advance(i+outcomeLag, 1000)
		if i%20_000 != 19_999 {
			continue
		}
		own, others := int(i/1000+1), int(min(i+1, MaxPooled))
		if n, mine := outcomesIn(&v.all), outcomesIn(&v.mine); n < others || n > others+own || mine > own {
			t.Fatalf("after %d outcomes %d count, %d of the asset itself", i+1, n, mine)
		}
	}
}
