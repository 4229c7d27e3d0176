package strategy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

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
		for s := range o.Bins {
			o.Bins[s], o.Won[s] = uint8(r.IntN(strengthBins)), uint8(r.IntN(8))
		}
		if a == 1 || r.IntN(4) == 0 { // the others have fewer, so that windows differ
			added[a] = append(added[a], o)
			pool.Add(fmt.Sprint("A", a), o)
		}
		if i%500 != 499 {
			continue
		}
		at := i * 1000
		moving.advance(at)
		fresh := view{pool: pool, own: "A1"}
		fresh.advance(at)
		if diff := cmp.Diff(fresh.all, moving.all, cmp.AllowUnexported(tally{}, count{})); diff != "" {
			t.Fatalf("after %d: the way matters:\n%s", i, diff)
		}
		var all, mine tallies
		for a, list := range added {
			for len(list) > 0 && list[len(list)-1].At > at-outcomeLag {
				list = list[:len(list)-1]
			}
			for _, o := range list[max(0, len(list)-MaxOutcomes):] {
				all.add(&o, 1)
				if a == 1 {
					mine.add(&o, 1)
				}
			}
		}
		if diff := cmp.Diff(all, fresh.all, cmp.AllowUnexported(tally{}, count{})); diff != "" {
			t.Fatalf("after %d: all:\n%s", i, diff)
		}
		if diff := cmp.Diff(mine, moving.mine, cmp.AllowUnexported(tally{}, count{})); diff != "" {
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
	for i := range 2 * maxPooled {
		pool.Add(fmt.Sprint(i), Outcome{Bar: 1})
	}
	if len(pool.of) != maxPooled {
		t.Errorf("%d assets, at most %d", len(pool.of), maxPooled)
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
	if diff := cmp.Diff(plain.of["A"].kept, found); diff != "" {
		t.Errorf("outcomes differ from those of a series without replaced bars:\n%s", diff)
	}
}
