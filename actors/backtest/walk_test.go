package backtest

import (
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// hour is the length of the bars of tests.
const hour = 3_600_000

// walk returns n bars of 1h of the random walk of a seed.
func walk(seed uint64, n int) []marketdata.Bar {
	r := rand.New(rand.NewPCG(seed, 1))
	bars := make([]marketdata.Bar, n)
	price := 100.0
	cents := func(x float64) float64 { return math.Round(x*100) / 100 }
	for i := range bars {
		b := marketdata.Bar{OpenTime: 1_700_000_000_000/hour*hour + int64(i)*hour, Open: cents(price)}
		b.CloseTime = b.OpenTime + hour
		b.High, b.Low = b.Open, b.Open
		for range 6 {
			price *= math.Exp(.002 * r.NormFloat64())
			b.High, b.Low = max(b.High, cents(price)), min(b.Low, cents(price))
		}
		b.Close = cents(price)
		b.Volume = 10 + r.Float64()
		bars[i] = b
	}
	return bars
}

// testOptions returns options for a walk.
func testOptions(name string) Options {
	return Options{Origin: strategy.Origin{Asset: "WALK", Tick: .01, Source: "test", Compression: 1}, Strategy: name,
		Timeframe: signal.H1, Risk: signal.MediumRisk, Metadata: true}
}
