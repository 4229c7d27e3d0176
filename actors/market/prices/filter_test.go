package prices

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestFilterKeepsBadTicksOut(t *testing.T) {
	t.Parallel()
	ticks := func(timesAndPrices ...float64) (list []marketdata.Tick) {
		for pair := range slices.Chunk(timesAndPrices, 2) {
			list = append(list, marketdata.Tick{Time: int64(pair[0]), Price: pair[1]})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		rising  bool
		atr     float64
		ticks   []marketdata.Tick
		want    []marketdata.Tick
		skipped []Reason
	}{
		{"passes small moves", false, 1, ticks(1, 100, 2, 110, 3, 100), ticks(1, 100, 2, 110, 3, 100), nil},
		{"drops a tick older than the newest", false, 1, ticks(5, 100, 4, 101, 5, 102),
			ticks(5, 100, 5, 102), []Reason{SkipOld}},
		{"drops repetitions where times rise", true, 1, ticks(5, 100, 5, 100, 6, 101),
			ticks(5, 100, 6, 101), []Reason{SkipOld}},
		{"drops a jump that the next tick does not confirm", false, 1, ticks(1, 100, 2, 111, 3, 101),
			ticks(1, 100, 3, 101), []Reason{skipJump}},
		{"passes a jump with the tick that confirms it", false, 1, ticks(1, 100, 2, 80, 3, 84.9),
			ticks(1, 100, 2, 80, 3, 84.9), nil},
		{"holds the next jump where the first is not confirmed", false, 1, ticks(1, 100, 2, 80, 3, 200, 4, 201),
			ticks(1, 100, 3, 200, 4, 201), []Reason{skipJump}},
		{"does not confirm from more than half the distance", false, 1, ticks(1, 100, 2, 80, 3, 85.1, 4, 99),
			ticks(1, 100, 4, 99), []Reason{skipJump, skipJump}},
		{"drops a tick older than the held one", false, 1, ticks(1, 100, 5, 80, 4, 80, 6, 80),
			ticks(1, 100, 5, 80, 6, 80), []Reason{SkipOld}},
		{"does not confirm a tick by itself", false, 1, ticks(1, 100, 2, 80, 2, 80, 3, 80),
			ticks(1, 100, 2, 80, 3, 80), []Reason{SkipOld}},
		{"passes large moves without a range", false, 0, ticks(1, 100, 2, 390, 3, 100),
			ticks(1, 100, 2, 390, 3, 100), nil},
		{"drops prices of another asset without a range", false, 0, ticks(1, 100, 2, 1e6, 3, .01, 4, 101),
			ticks(1, 100, 4, 101), []Reason{skipJump, skipJump}},
		{"passes them with the tick that confirms them", false, math.NaN(), ticks(1, 100, 2, 1e6, 3, 999_999),
			ticks(1, 100, 2, 1e6, 3, 999_999), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Filter{Rising: c.rising}
			var got []marketdata.Tick
			var skipped []Reason
			for _, x := range c.ticks {
				accepted, r := f.Take(x, c.atr)
				got = append(got, accepted...)
				if r != "" {
					skipped = append(skipped, r)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("ticks (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.skipped, skipped); d != "" {
				t.Errorf("skipped (-want +got):\n%s", d)
			}
		})
	}
}

// The series and its ATR(14) at the last bar are computed by hand.
func TestATRAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	got := ATR(60, func(i int) (high, low, closing float64) {
		x := float64(i)
		c := 100 + 10*math.Sin(x/5) + 3*math.Cos(x/2) + .1*x
		return c + 1 + .5*math.Sin(x), c - 1 - .5*math.Cos(x), c
	})
	if math.Abs(got-2.696084388) > 1e-9 {
		t.Errorf("ATR is %.9f", got)
	}
	if got := ATR(14, func(int) (high, low, closing float64) { return 2, 1, 1 }); got != 0 {
		t.Errorf("ATR of 14 bars is %v", got)
	}
}
