package strategy

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestReplay(t *testing.T) {
	type bars = []marketdata.Bar
	const long, short = signal.Long, signal.Short
	// Entry at 100, ATR 2, multiple 1: long stop 98, target 103.
	flat := marketdata.Bar{Open: 100, High: 100.5, Low: 99.5, Close: 100}
	bar := func(open, high, low, closing float64) marketdata.Bar {
		return marketdata.Bar{Open: open, High: high, Low: low, Close: closing}
	}
	for _, c := range []struct {
		name string
		d    signal.Direction
		bars bars // after the entry
		want float64
	}{
		{"target", long, bars{flat, bar(100, 104, 99, 104), flat}, 1.5},
		{"stop", long, bars{flat, bar(100, 101, 97, 97), flat}, -1},
		{"the gap is paid", long, bars{bar(96, 97, 95, 96), flat, flat}, -2},
		{"both in one bar", long, bars{bar(100, 104, 97, 100), flat, flat}, -1},
		{"the first exit counts", long, bars{bar(100, 101, 97, 97), bar(97, 104, 97, 104), flat}, -1},
		{"expiry at the last close", long, bars{flat, flat, bar(100, 101.2, 99, 101)}, 0.5},
		{"the last bar may still stop", long, bars{flat, flat, bar(100, 101.2, 98, 101)}, -1},
		{"bars after the horizon do not count", long, bars{flat, flat, flat, bar(100, 110, 100, 110)}, 0},
		{"short target", short, bars{flat, bar(100, 101, 96, 97), flat}, 1.5},
		{"short expiry", short, bars{flat, flat, bar(100, 101.2, 99, 101)}, -0.5},
	} {
		// The extremes of the entry's bar lie beyond both levels and must be ignored.
		all := append(bars{bar(100, 120, 80, 100)}, c.bars...)
		if got := replay(c.d, all, 3, 2, 1, 0); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v R, want %v", c.name, got, c.want)
		}
	}
}

// TestReplayObeysMinimumDistance checks that levels are widened for a tiny ATR in replays
// as they are in signals.
func TestReplayObeysMinimumDistance(t *testing.T) {
	bars := []marketdata.Bar{{Close: 100}, {Open: 100, High: 100.01, Low: 99.96, Close: 100.01}}
	if got, want := replay(signal.Long, bars, 1, 0.01, 1, 0), 0.01/0.05; math.Abs(got-want) > 1e-9 {
		t.Errorf("0.05 %% of the entry: %v R, want %v", got, want)
	}
	if got, want := replay(signal.Long, bars, 1, 0.01, 1, 0.1), 0.01/0.5; math.Abs(got-want) > 1e-9 {
		t.Errorf("five ticks: %v R, want %v", got, want)
	}
}

func TestResolveWaitsForTheHorizon(t *testing.T) {
	bars := walk(1, 200, 0.01)
	s := seriesOf(t, signal.D1, bars)
	const horizon = 10
	known := resolve(nil, s.bars.bars, s.bars.history, horizon, 1, 0)
	if len(known) != len(bars)-horizon {
		t.Fatalf("%d outcomes of %d bars, want %d", len(known), len(bars), len(bars)-horizon)
	}
	for j, o := range known {
		if scored := j >= warmUp; scored == math.IsNaN(o.long) || scored == math.IsNaN(o.short) {
			t.Fatalf("bar %d: outcome %+v, scored %v", j, o, scored)
		}
	}
}
