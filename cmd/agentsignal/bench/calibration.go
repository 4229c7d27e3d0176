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

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	calibrationSignals = 5000     // minimum number of signals of each kind
	calibrationBars    = 4000     // of 1h in a series; the first 300 or more yield no signals
	calibrationPoints  = 24       // steps of a walk in a bar
	calibrationHour    = 0.006    // standard deviation of the return of an hour
	calibrationMiss    = 0.03     // maximum distance of mean confidence and hit rate
	calibrationSeed    = 20261121 // of all series
)

// calibrated are the strategies that read only bars.
var calibrated = []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}

// calibration compares confidence with the share of signals that close in profit, which it
// forecasts. It needs no Redis and no clock: the same binary prints the same figures.
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
				"%d signals: confidence %.4f, hit rate %.4f (95 %%: %.4f to %.4f), apart %+.4f, Brier skill %+.4f",
				s.Count, s.MeanConfidence, s.HitRate, s.HitRateInterval.Low, s.HitRateInterval.High, miss, s.BrierSkill)
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
			"%d signals still open: Brier skill re-scored %+.4f, first value kept %+.4f",
			len(r.won), skill(r.now, r.won), skill(r.first, r.won))
		b.row("  by quintile of confidence, mean and hit rate", "%s", quintiles(r))
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
		open := int64(i) * hour
		b := marketdata.Bar{OpenTime: open, CloseTime: open + hour, Open: at(), Volume: 1 + r.Float64()}
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

// onWalks returns the statistics of a strategy on walks without drift, of at least the given
// number of signals.
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
	origin := strategy.Origin{Asset: "WALK", Compression: 1}
	return backtest.Options{Origin: origin, Strategy: name, Timeframe: signal.H1, Risk: risk}
}

// replayAll runs n backtests, as many at a time as there are processors.
func replayAll(
	ctx context.Context, n int, series func(i int) ([]marketdata.Bar, backtest.Options),
) ([]backtest.Result, error) {
	results := make([]backtest.Result, n)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() (err error) {
			bars, o := series(i)
			results[i], err = backtest.Run(ctx, bars, o)
			return err
		})
	}
	return results, group.Wait()
}

// rescoredAfter lists the numbers of bars after which confidence is re-scored.
var rescoredAfter = []int{2, 5, 10}

// rescored are the forecasts and outcomes of signals that are still open.
type rescored struct {
	first, now []float64
	won        []bool
}

// calibrationAssets are assets of the simulated market, of all classes.
var calibrationAssets = []string{"BTC", "ETH", "SOL", "AAPL", "MSFT", "TSLA", "SPY", "EURUSD", "USDJPY", "XAUUSD",
	"natural_gas", "oil"}

// onMarket re-scores the signals of all strategies on assets of the simulated market. Its
// result is by the number of bars in rescoredAfter.
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

// rescore adds a trade to the numbers of bars after which it was still open.
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
		confidence, won := 0.0, 0.0
		for _, i := range part {
			confidence += r.now[i]
			if r.won[i] {
				won++
			}
		}
		n := float64(max(1, len(part)))
		text = append(text, fmt.Sprintf("%.3f→%.3f", confidence/n, won/n))
	}
	return strings.Join(text, ", ")
}
