package simulated

import (
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

func TestWalkFollowsItsSeed(t *testing.T) {
	t.Parallel()
	for _, tf := range signal.Timeframes {
		bars, other := Walk(7, "btc", tf, 500), Walk(8, "BTC", tf, 500)
		if len(bars) != 500 || !slices.Equal(bars, Walk(7, "BTC", tf, 500)) || slices.Equal(bars, other) {
			t.Fatalf("%s: %d bars, not those of the seed alone", tf, len(bars))
		}
		for i, b := range bars {
			follows := i == 0 || b.Open == bars[i-1].Close && b.OpenTime == bars[i-1].CloseTime
			err := strategy.CheckBar(b)
			if err != nil || b.CloseTime-b.OpenTime != tf.Duration().Milliseconds() || !follows {
				t.Fatalf("%s: bar %d is %+v (%v)", tf, i, b, err)
			}
		}
	}
	if Walk(1, "NOSUCH", signal.H1, 5) != nil || Walk(1, "BTC", "2h", 5) != nil {
		t.Error("an unknown asset or timeframe has a walk")
	}
	begin := time.UnixMilli(Walk(1, "BTC", signal.H1, 1)[0].OpenTime)
	if !begin.Equal(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("walks begin at %s", begin)
	}
}
