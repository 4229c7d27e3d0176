package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// calibrationSignals is how many signals of each kind are counted at least.
	calibrationSignals = 5000
	// calibrationBars is how long a series is, in bars of 1h; the first 300 and more
	// yield no signals.
	calibrationBars = 4000
	// calibrationPoints is how many steps of a walk are in a bar.
	calibrationPoints = 24
	// calibrationHour is the deviation of an hour's return.
	calibrationHour = 0.006
	// calibrationMiss is how far mean confidence and hit rate may lie apart.
	calibrationMiss = 0.03
	// calibrationSeed fixes all of it.
	calibrationSeed = 20261121
)

// calibrated are the strategies that read nothing but bars.
var calibrated = []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}

// calibration compares confidence with what it forecasts: the share of signals that close
// in profit. It needs no Redis and no clock: the same binary gives the same
// figures.
func (b *bench) calibration(ctx context.Context) error {
	fmt.Fprintf(b.out, "  walks without drift, at least %d signals each\n", calibrationSignals)
	worst := 0.0
	for _, name := range calibrated {
		for _, risk := range signal.RiskLevels {
			s, err := onWalks(ctx, name, risk, calibrationSignals)
			if err != nil {
				return err
			}
			miss := float64(s.MeanConfidence - s.HitRate)
			worst = max(worst, math.Abs(miss))
			b.row(fmt.Sprintf("%s, %s", name, risk),
				"%d signals: confidence %.4f, hit rate %.4f (95 %%: %.4f to %.4f), apart %+.4f, Brier skill %+.4f", s.Count,
				float64(s.MeanConfidence), float64(s.HitRate), float64(s.HitRateInterval.Low), float64(s.HitRateInterval.High),
				miss, float64(s.BrierSkill))
		}
	}
	b.row("farthest apart", "%.4f (at most %.2f)", worst, calibrationMiss)
	fmt.Fprintln(b.out, "  the simulated market, 1h, medium risk")
	scored, err := onMarket(ctx, calibrationAssets)
	if err != nil {
		return err
	}
	for _, after := range rescoredAfter {
		r := scored[after]
		b.row(fmt.Sprintf("after %d bars", after),
			"%d signals still open: Brier skill re-scored %+.4f, first value kept %+.4f", len(r.won), skill(r.now, r.won),
			skill(r.first, r.won))
		b.row("  by quintile of confidence, told and seen", "%s", quintiles(r))
	}
	return nil
}

// driftless returns bars of 1h of a walk whose logarithm has no drift.
func driftless(seed uint64, n int) []marketdata.Bar {
	r := rand.New(rand.NewPCG(calibrationSeed, seed))
	const hour = 3_600_000
	price := math.Log(100)
	at := func() float64 { return math.Round(math.Exp(price)*1e6) / 1e6 }
	bars := make([]marketdata.Bar, n)
	for i := range bars {
		b := marketdata.Bar{OpenTime: int64(i) * hour, CloseTime: int64(i+1) * hour, Open: at(), Volume: 1 + r.Float64()}
		b.High, b.Low = b.Open, b.Open
		for range calibrationPoints {
			price += calibrationHour / math.Sqrt(calibrationPoints) * r.NormFloat64()
			b.High, b.Low = max(b.High, at()), min(b.Low, at())
		}
		b.Close = at()
		bars[i] = b
	}
	return bars
}

// onWalks returns the statistics of a strategy on walks without drift, of at least so
// many signals.
func onWalks(ctx context.Context, name string, risk signal.RiskLevel, signals int) (backtest.Statistics, error) {
	const atOnce = 4
	var all []backtest.Outcome
	for first := uint64(0); len(all) < signals; first += atOnce {
		results, err := replayAll(ctx, atOnce, func(i int) ([]marketdata.Bar, backtest.Options) {
			return driftless(first+uint64(i), calibrationBars), calibrationOptions(name, risk)
		})
		if err != nil {
			return backtest.Statistics{}, err
		}
		for _, r := range results {
			for i := range r.Trades {
				if !r.Trades[i].Open() {
					all = append(all, r.Trades[i].Outcome(0))
				}
			}
		}
	}
	return backtest.Summarize(all), nil
}

func calibrationOptions(name string, risk signal.RiskLevel) backtest.Options {
	return backtest.Options{Origin: strategy.Origin{Asset: "WALK", Compression: 1}, Strategy: name, Timeframe: signal.H1,
		Risk: risk}
}

// replayAll runs n backtests, as many at once as there are processors.
func replayAll(
	ctx context.Context, n int, series func(i int) ([]marketdata.Bar, backtest.Options),
) ([]backtest.Result, error) {
	results, errs := make([]backtest.Result, n), make([]error, n)
	next := make(chan int)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := range next {
				bars, o := series(i)
				results[i], errs[i] = backtest.Run(ctx, bars, o)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// rescoredAfter is after how many bars confidence is looked at again.
var rescoredAfter = []int{2, 5, 10}

// rescored are forecasts of signals that are still open, and what came of them.
type rescored struct {
	first, now []float64
	won        []bool
}

// calibrationAssets are assets of the simulated market, of all classes.
var calibrationAssets = []string{"BTC", "ETH", "SOL", "AAPL", "MSFT", "TSLA", "SPY", "EURUSD", "USDJPY", "XAUUSD",
	"natural_gas", "oil"}

// onMarket re-scores the signals of all strategies on assets of the simulated market, by
// the number of bars after which it did.
func onMarket(ctx context.Context, assets []string) (map[int]*rescored, error) {
	found := map[int]*rescored{}
	for _, after := range rescoredAfter {
		found[after] = &rescored{}
	}
	for _, name := range calibrated {
		all := make([][]marketdata.Bar, len(assets))
		results, err := replayAll(ctx, len(assets), func(i int) ([]marketdata.Bar, backtest.Options) {
			all[i] = simulated.Walk(calibrationSeed, assets[i], signal.H1, calibrationBars)
			return all[i], calibrationOptions(name, signal.MediumRisk)
		})
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			for j := range r.Trades {
				rescore(found, &r.Trades[j], all[i])
			}
		}
	}
	return found, nil
}

// rescore adds a trade to where it was still open.
func rescore(found map[int]*rescored, t *backtest.Trade, bars []marketdata.Bar) {
	if t.Open() {
		return
	}
	won := t.Outcome(0).R > 0
	for after, r := range found {
		if t.ExitBar > t.Bar+after {
			r.first = append(r.first, t.Confidence)
			r.now = append(r.now, strategy.Rescore(t.Confidence, t.Levels, bars[t.Bar+after].Close))
			r.won = append(r.won, won)
		}
	}
}

// skill returns the Brier skill of forecasts against always forecasting the base rate.
func skill(forecasts []float64, won []bool) float64 {
	outcomes := make([]backtest.Outcome, len(forecasts))
	for i := range outcomes {
		outcomes[i] = backtest.Outcome{Confidence: forecasts[i], R: -1}
		if won[i] {
			outcomes[i].R = 1
		}
	}
	return float64(backtest.Summarize(outcomes).BrierSkill)
}

// quintiles returns mean confidence and hit rate of each fifth of the signals by their
// re-scored confidence.
func quintiles(r *rescored) string {
	order := make([]int, len(r.now))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(r.now[i], r.now[j]) })
	var text []string
	for q := range 5 {
		part := order[q*len(order)/5 : (q+1)*len(order)/5]
		told, seen := 0.0, 0.0
		for _, i := range part {
			told += r.now[i]
			if r.won[i] {
				seen++
			}
		}
		n := float64(max(1, len(part)))
		text = append(text, fmt.Sprintf("%.3f→%.3f", told/n, seen/n))
	}
	return strings.Join(text, ", ")
}
