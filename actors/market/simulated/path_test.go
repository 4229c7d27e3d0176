package simulated

import (
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// hourlyReturns steps a path through hours in steps of 2.5 minutes.
func hourlyReturns(seed uint64, k *assets.Spec, hours int) []float64 {
	p := newPath(seed, k)
	before := p.price
	returns := make([]float64, 0, hours)
	for range hours {
		for range 24 {
			p.step(1. / 24)
		}
		returns = append(returns, p.price-before)
		before = p.price
	}
	return returns
}

func autocorrelation(x []float64, lag int) float64 {
	return stat.Correlation(x[lag:], x[:len(x)-lag], nil)
}

func TestReturnsHaveTheStatisticsOfAMarket(t *testing.T) {
	t.Parallel()
	var kurtosis, plain, near, far, deviation float64
	const seeds = 3
	for seed := range uint64(seeds) {
		r := hourlyReturns(seed+1, assets.Find("BTC"), 12_000)
		size := make([]float64, len(r))
		for i := range r {
			size[i] = math.Abs(r[i])
		}
		kurtosis += (stat.ExKurtosis(r, nil) + 3) / seeds
		plain += autocorrelation(r, 1) / seeds
		near += autocorrelation(size, 1) / seeds
		far += autocorrelation(size, 10) / seeds
		deviation += stat.StdDev(r, nil) * math.Sqrt(hoursPerYear) / seeds
	}
	for _, c := range []struct {
		name           string
		got, low, high float64
	}{
		{"kurtosis", kurtosis, 5, 11},
		{"autocorrelation of returns at lag 1", plain, -.02, .05},
		{"autocorrelation of sizes at lag 1", near, .15, .32},
		{"autocorrelation of sizes at lag 10", far, .08, .24},
		{"yearly volatility", deviation, .45, .70},
	} {
		t.Logf("%s: %.3f", c.name, c.got)
		if c.got < c.low || c.got > c.high {
			t.Errorf("%s is %.3f, want %.2f to %.2f", c.name, c.got, c.low, c.high)
		}
	}
}

func TestAssetsOfOneClassMoveTogether(t *testing.T) {
	t.Parallel()
	const hours = 8_000
	btc, eth := hourlyReturns(1, assets.Find("BTC"), hours), hourlyReturns(1, assets.Find("ETH"), hours)
	oil := hourlyReturns(1, assets.Find("oil"), hours)
	// Regimes and tails are each asset's own, so returns correlate less than draws.
	if c := stat.Correlation(btc, eth, nil); c < .35 || c > .65 {
		t.Errorf("correlation within a class is %.2f", c)
	}
	if c := stat.Correlation(btc, oil, nil); math.Abs(c) > .05 {
		t.Errorf("correlation between classes is %.2f", c)
	}
}

func BenchmarkPathStep(b *testing.B) {
	p := newPath(1, assets.Find("BTC"))
	for b.Loop() {
		p.step(1. / 600)
	}
}

func TestPricesAreRoundedToTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ price, step, want float64 }{
		{67000.12345, .001, 67000.123}, {1.08512345678, 1e-7, 1.0851235},
		{123456, 100, 123500}, {2.80000005, 1e-7, 2.8000001},
	} {
		if got := roundTo(c.price, c.step); got != c.want {
			t.Errorf("%v to %v is %v, want %v", c.price, c.step, got, c.want)
		}
	}
}

// A path panics in the goroutine of the caller, which recovers, even if paths are computed in parallel.
func TestPanicOfAPathReachesTheCaller(t *testing.T) {
	t.Parallel()
	s := opened(t, 60, 1, "BTC", "ETH")
	s.assets[0] = nil
	defer func() {
		if recover() == nil {
			t.Error("the caller does not panic")
		}
	}()
	s.run(t.Context(), s.at+parallelSteps*minuteStep, planFor(s.at), 0)
}

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
