package prices

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestFilterKeepsBadTicksOut(t *testing.T) {
	t.Parallel()
	tick := func(at int64, price float64) marketdata.Tick { return marketdata.Tick{Time: at, Price: price} }
	for _, c := range []struct {
		name    string
		rising  bool
		atr     float64
		ticks   []marketdata.Tick
		want    []marketdata.Tick
		skipped []Reason
	}{
		{"passes what moves a little", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 110), tick(3, 100)},
			[]marketdata.Tick{tick(1, 100), tick(2, 110), tick(3, 100)}, nil},
		{"drops what is older than the newest", false, 1, []marketdata.Tick{tick(5, 100), tick(4, 101), tick(5, 102)},
			[]marketdata.Tick{tick(5, 100), tick(5, 102)}, []Reason{SkipOld}},
		{"drops repetitions where times rise", true, 1, []marketdata.Tick{tick(5, 100), tick(5, 100), tick(6, 101)},
			[]marketdata.Tick{tick(5, 100), tick(6, 101)}, []Reason{SkipOld}},
		{"drops a jump that the next tick does not confirm", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 111), tick(3, 101)},
			[]marketdata.Tick{tick(1, 100), tick(3, 101)}, []Reason{skipJump}},
		{"passes a jump with the tick that confirms it", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 84.9)},
			[]marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 84.9)}, nil},
		{"holds the next jump where the first is not confirmed", false, 1,
			[]marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 200), tick(4, 201)},
			[]marketdata.Tick{tick(1, 100), tick(3, 200), tick(4, 201)}, []Reason{skipJump}},
		{"does not confirm from more than half the distance", false, 1, []marketdata.Tick{tick(1, 100), tick(2, 80), tick(3, 85.1), tick(4, 99)},
			[]marketdata.Tick{tick(1, 100), tick(4, 99)}, []Reason{skipJump, skipJump}},
		{"drops what is older than a held one", false, 1, []marketdata.Tick{tick(1, 100), tick(5, 80), tick(4, 80), tick(6, 80)},
			[]marketdata.Tick{tick(1, 100), tick(5, 80), tick(6, 80)}, []Reason{SkipOld}},
		{"passes much while the range is not known", false, 0, []marketdata.Tick{tick(1, 100), tick(2, 390), tick(3, 100)},
			[]marketdata.Tick{tick(1, 100), tick(2, 390), tick(3, 100)}, nil},
		{"drops what cannot be the same thing then", false, 0, []marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, .01), tick(4, 101)},
			[]marketdata.Tick{tick(1, 100), tick(4, 101)}, []Reason{skipJump, skipJump}},
		{"passes it with the tick that confirms it", false, math.NaN(), []marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, 999_999)},
			[]marketdata.Tick{tick(1, 100), tick(2, 1e6), tick(3, 999_999)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Filter{Rising: c.rising}
			var got []marketdata.Tick
			var skipped []Reason
			for _, x := range c.ticks {
				passed, r := f.Take(x, c.atr)
				got = append(got, passed...)
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

// The series and its ATR(14) at the last bar are those of domain.md, section 2.
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
