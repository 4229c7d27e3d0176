package strategy_test

import (
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// A series collects closed bars, a strategy assesses the last one, and Evaluate turns the
// assessment into a signal. A later price then decides whether the signal ends.
func ExampleAssessment_Evaluate() {
	const hour = 3_600_000
	series := strategy.NewSeries(signal.H1).WithTick(0.01)
	price := 100.0
	for i := range int64(400) {
		open := price
		price *= 1.0006 + 0.004*math.Sin(float64(i)/9) // rises in waves
		err := series.Append(marketdata.Bar{
			OpenTime:  i * hour,
			CloseTime: (i + 1) * hour,
			Open:      open,
			High:      1.001 * max(open, price),
			Low:       0.999 * min(open, price),
			Close:     price,
			Volume:    1,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	assessment, err := series.Assess(strategy.Momentum, signal.MediumRisk)
	if err != nil {
		fmt.Println(err)
		return
	}
	origin := strategy.Origin{Asset: "BTC", Tick: 0.01, Source: "example", Compression: 1}
	evaluation, err := assessment.Evaluate(origin, series.Last().Close)
	if err != nil {
		fmt.Println(err)
		return
	}
	levels := evaluation.Levels
	fmt.Println(evaluation.Direction, "with probability", evaluation.Confidence)
	fmt.Printf("entry %.2f, stop %.2f, target %.2f\n", levels.Entry, levels.Stop, levels.Target)
	fmt.Println("expires after", evaluation.Lifetime)

	if exit, ended := strategy.ExitOnTick(evaluation.Direction, levels, levels.Target); ended {
		fmt.Printf("closed by %s: %+.1f R\n", exit.Reason, strategy.R(evaluation.Direction, levels, exit.Price))
	}
	// Output:
	// short with probability 0.4629
	// entry 127.28, stop 128.02, target 126.17
	// expires after 24h0m0s
	// closed by take_profit: +1.5 R
}
