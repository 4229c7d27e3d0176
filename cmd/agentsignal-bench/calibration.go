package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/assets"
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

// calibrationBenchmark is the benchmark calibration.
type calibrationBenchmark struct {
	*report
	files barFiles // instead of the simulated market; none by default
}

// define implements adjustable.
func (b *calibrationBenchmark) define(c *cobra.Command) {
	c.Long = `Compares confidence with the share of signals that close in profit, on walks without
drift and on the simulated market, or on files of prices. Files are read as by
agentsignal backtest; each is named after its asset, such as SPY.csv or SPY_1h.csv.
Files of today's companies give results that are too good, because those that failed are
missing (survivorship bias). Without files it also compares what an agent of an account is told
about its levels and its skill with what comes of them.`
	c.Example = "  agentsignal-bench calibration --csv SPY.csv,IBM.csv,NZDUSD.csv --class stock,NZDUSD=fx"
	b.files.define(c)
}

// measure compares confidence with the share of signals that close in profit, which it
// forecasts. It needs no Redis and no clock: the same binary prints the same figures.
func (b *calibrationBenchmark) measure(ctx context.Context) error {
	if len(b.files.names) > 0 {
		return b.onFiles(ctx)
	}
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
				"%d signals: confidence %.4f, hit rate %.4f (95 %%: %.4f to %.4f), apart %+.4f, slope %+.2f ± %.2f, "+
					"Brier skill %+.4f",
				s.Count, s.MeanConfidence, s.HitRate, s.HitRateInterval.Low, s.HitRateInterval.High, miss,
				s.Slope, s.SlopeError, s.BrierSkill)
		}
	}
	b.row("farthest apart", "%.4f (at most %.2f)", worst, calibrationMiss)
	fmt.Fprintln(b.out, "  the simulated market, 1h, medium risk")
	b.slippage(ctx)
	var markets []assetBars
	for _, asset := range calibrationAssets {
		bars := simulated.Walk(calibrationSeed, asset, signal.H1, calibrationBars)
		markets = append(markets, marketOf(asset, assets.ClassOf(asset), bars))
	}
	if err := b.onMarkets(ctx, markets, signal.H1, signal.MediumRisk); err != nil {
		return err
	}
	printSkills(b.report)
	return printBases(ctx, b.report)
}

// onFiles measures on the files of the flags.
func (b *calibrationBenchmark) onFiles(ctx context.Context) error {
	markets, err := b.files.read()
	if err != nil {
		return err
	}
	for i := range markets {
		m := &markets[i]
		if err := m.file.Print(b.out); err != nil {
			return err
		}
		b.row(m.asset, "class %s, cost %g basis points a side", cmp.Or(m.class, "not known"), math.Round(m.cost*1e8)/1e4)
		if j := m.greatest; j != nil {
			b.row("  greatest jump", "%+.2f %%, %.1f mean ranges, at %s", j.Percent, j.Ranges,
				time.UnixMilli(j.At).UTC().Format("2006-01-02 15:04:05"))
		}
	}
	return b.onMarkets(ctx, markets, signal.Timeframe(b.files.timeframe), signal.RiskLevel(b.files.risk))
}

// slippage prints by timeframe how far beyond the stop trades close entries.
func (b *calibrationBenchmark) slippage(ctx context.Context) {
	for _, tf := range []signal.Timeframe{signal.M1, signal.M5, signal.H1} {
		paid := measureSlippage(ctx, tf)
		n := len(paid)
		if n == 0 {
			continue
		}
		b.row("trades beyond the stop, "+string(tf), "%d entries: median %.4f R, 90 %% within %.4f R (setting %g R)",
			n, paid[n/2], paid[n*9/10], backtest.SlippageOn(tf, backtest.DefaultSlippage))
	}
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

// calibrationAssets are assets of the simulated market, of all classes.
var calibrationAssets = []string{"BTC", "ETH", "SOL", "AAPL", "MSFT", "TSLA", "SPY", "EURUSD", "USDJPY", "XAUUSD",
	"natural_gas", "oil"}
