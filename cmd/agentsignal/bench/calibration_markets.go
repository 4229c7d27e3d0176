package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// assetBars is an asset with its bars.
type assetBars struct {
	asset, class string
	bars         []marketdata.Bar
}

// barFiles are the flags that replace the markets of calibration by files.
type barFiles struct {
	names           []string
	timeframe, risk string
}

func (f *barFiles) define(c *cobra.Command) {
	c.Long = `Compares confidence with the share of signals that close in profit, on walks without
drift and on the simulated market, or on files of bars. Files are read as by
agentsignal backtest; each is named after its asset, such as SPY.csv or SPY_1h.csv.`
	c.Example = "  agentsignal bench calibration --timeframe 1d --csv SPY.csv,AAPL.csv --csv EURUSD.csv"
	c.Flags().StringSliceVar(&f.names, "csv", nil, "files of bars to measure on, one for each asset")
	c.Flags().StringVar(&f.timeframe, "timeframe", "1h", "that of the files: 1m, 5m, 1h or 1d")
	c.Flags().StringVar(&f.risk, "risk", "medium", "that of the signals on files: low, medium or high")
}

// onFiles measures on the files of the flags.
func (b *bench) onFiles(ctx context.Context) error {
	tf, risk := signal.Timeframe(b.files.timeframe), signal.RiskLevel(b.files.risk)
	if strategy.Horizon(tf, signal.MediumRisk) == 0 {
		return fmt.Errorf("--timeframe: %q must be 1m, 5m, 1h or 1d", tf)
	}
	if strategy.StopMultiple(risk) == 0 {
		return fmt.Errorf("--risk: %q must be low, medium or high", risk)
	}
	markets, err := readMarkets(b.files.names, tf)
	if err != nil {
		return fmt.Errorf("--csv: %w", err)
	}
	return b.onMarkets(ctx, markets, tf, risk)
}

// readMarkets reads files of bars. An asset has the name of its file up to the first dot or
// underscore.
func readMarkets(files []string, tf signal.Timeframe) ([]assetBars, error) {
	var markets []assetBars
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		bars, err := backtest.ReadCSV(file, tf)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s:\n%w", name, err)
		}
		base := filepath.Base(name)
		asset, _, _ := strings.Cut(strings.ToUpper(strings.TrimSuffix(base, filepath.Ext(base))), "_")
		if slices.ContainsFunc(markets, func(m assetBars) bool { return m.asset == asset }) {
			return nil, fmt.Errorf("%s: there is another file of %s", name, asset)
		}
		markets = append(markets, assetBars{asset, assets.ClassOf(asset), bars})
	}
	return markets, nil
}

// told is what a signal said when it was made.
type told struct {
	BreakEven    float64 `json:"break_even"`
	BreakEvenNet float64 `json:"break_even_net"`
	ExpectedR    float64 `json:"expected_r"`
}

// forecast is a confidence, or an expected R, and how its signal ended.
type forecast struct {
	confidence float64
	backtest.Outcome
}

// forecasts are those of many signals.
type forecasts []forecast

// statistics returns the statistics of the forecasts.
func (f forecasts) statistics() backtest.Statistics {
	outcomes := make([]backtest.Outcome, len(f))
	for i := range f {
		outcomes[i] = f[i].Outcome
		outcomes[i].Confidence = f[i].confidence
	}
	return backtest.Summarize(outcomes)
}

// breakEvens returns the hit rates at which the forecast signals would have broken even
// before and after costs.
func (f forecasts) breakEvens() (gross, net float64) {
	var win, loss, wins, losses, cost float64
	for i := range f {
		cost += f[i].Cost
		if f[i].R > 0 {
			win, wins = win+f[i].R, wins+1
		} else {
			loss, losses = loss-f[i].R, losses+1
		}
	}
	win, loss, cost = win/wins, loss/losses, cost/(wins+losses)
	return loss / (win + loss), (loss + cost) / (win + loss)
}

// rescoredAfter lists the numbers of bars after which confidence is re-scored.
var rescoredAfter = []int{2, 5, 10, 20}

// measured holds what is measured of the signals of some assets.
type measured struct {
	first, expected forecasts
	told            told // sums
	now, kept       map[int]forecasts
}

func newMeasured() *measured {
	return &measured{now: make(map[int]forecasts), kept: make(map[int]forecasts)}
}

// merge adds what was measured of other signals.
func (x *measured) merge(y *measured) {
	x.first, x.expected = append(x.first, y.first...), append(x.expected, y.expected...)
	x.told.BreakEven += y.told.BreakEven
	x.told.BreakEvenNet += y.told.BreakEvenNet
	x.told.ExpectedR += y.told.ExpectedR
	for _, after := range rescoredAfter {
		x.now[after] = append(x.now[after], y.now[after]...)
		x.kept[after] = append(x.kept[after], y.kept[after]...)
	}
}

// add adds the signals of m that have ended.
func (x *measured) add(m *assetBars, trades []backtest.Trade, o *backtest.Options) error {
	horizon := strategy.Horizon(o.Timeframe, o.Risk)
	for i := range trades {
		t := &trades[i]
		if t.Open() {
			continue
		}
		var told told
		if err := json.Unmarshal(t.Metadata, &told); err != nil {
			return err
		}
		x.told.BreakEven += told.BreakEven
		x.told.BreakEvenNet += told.BreakEvenNet
		x.told.ExpectedR += told.ExpectedR
		out := t.Outcome(o.Cost)
		x.first = append(x.first, forecast{t.Confidence, out})
		x.expected = append(x.expected, forecast{told.ExpectedR, out})
		for _, after := range rescoredAfter {
			if t.ExitBar <= t.Bar+after {
				continue
			}
			price := m.bars[t.Bar+after].Close
			left := float64(horizon-after) / float64(horizon)
			now := strategy.Rescore(t.Confidence, t.Levels, o.Timeframe, o.Risk, left, price)
			x.now[after] = append(x.now[after], forecast{now, out})
			x.kept[after] = append(x.kept[after], forecast{t.Confidence, out})
		}
	}
	return nil
}

// poolOf returns the outcomes of all entries of the markets, each of which counts from its end.
func poolOf(markets []assetBars, tf signal.Timeframe) (*strategy.Pool, error) {
	pool := strategy.NewPool(0)
	for i := range markets {
		series := strategy.NewSeries(tf).InPool(pool, markets[i].asset, nil)
		for _, bar := range markets[i].bars {
			if err := series.Append(bar); err != nil {
				return nil, fmt.Errorf("%s: %w", markets[i].asset, err)
			}
		}
		series.Resolve()
	}
	return pool.Replayed("", nil), nil // in the order of their ends, of which the newest count
}

// measuredMarkets holds what was measured of each market, and of all together.
type measuredMarkets struct {
	each []*measured
	sum  *measured
}

// measureMarkets measures a strategy on markets. Outcomes are pooled, each from the time at
// which it was known.
func measureMarkets(
	ctx context.Context, markets []assetBars, name string, tf signal.Timeframe, risk signal.RiskLevel,
) (measuredMarkets, error) {
	pool, err := poolOf(markets, tf)
	if err != nil {
		return measuredMarkets{}, err
	}
	options := make([]backtest.Options, len(markets))
	for i, m := range markets {
		origin := strategy.Origin{Asset: m.asset, Compression: 1, Cost: backtest.DefaultCosts.Of(m.class)}
		options[i] = backtest.Options{Origin: origin, Strategy: name, Timeframe: tf, Risk: risk, Pool: pool,
			PoolKey: m.asset, Jumps: true}
	}
	results, err := replayAll(ctx, len(markets), func(i int) ([]marketdata.Bar, backtest.Options) {
		return markets[i].bars, options[i]
	})
	if err != nil {
		return measuredMarkets{}, err
	}
	all := measuredMarkets{sum: newMeasured()}
	for i := range markets {
		one := newMeasured()
		for _, x := range []*measured{one, all.sum} {
			if err := x.add(&markets[i], results[i].Trades, &options[i]); err != nil {
				return measuredMarkets{}, err
			}
		}
		all.each = append(all.each, one)
	}
	return all, nil
}

// onMarkets prints how confidence, break-even and expectation of the signals of all
// strategies compare with their ends.
func (b *bench) onMarkets(ctx context.Context, markets []assetBars, tf signal.Timeframe, risk signal.RiskLevel) error {
	everything := newMeasured()
	for _, name := range calibrated {
		all, err := measureMarkets(ctx, markets, name, tf, risk)
		if err != nil {
			return err
		}
		for i, one := range all.each {
			b.measured(markets[i].asset+", "+name, one)
		}
		b.measured("all, "+name, all.sum)
		everything.merge(all.sum)
	}
	b.measured("all", everything)
	if len(everything.first) == 0 {
		return nil
	}
	b.row("  by quintile of confidence, mean and hit rate", "%s", quintiles(everything.first))
	b.row("  by quintile of expected R, mean and seen", "%s", expectations(everything.expected))
	for _, after := range rescoredAfter {
		now := everything.now[after]
		if len(now) < backtest.MinForRates {
			continue // signals do not live as long
		}
		b.row(fmt.Sprintf("after %d bars", after),
			"%d signals still open: Brier skill re-scored %+.4f, first value kept %+.4f", len(now),
			now.statistics().BrierSkill, everything.kept[after].statistics().BrierSkill)
		b.row("  by quintile of confidence, mean and hit rate", "%s", quintiles(now))
	}
	return nil
}

// measured prints what was measured of some signals.
func (b *bench) measured(what string, x *measured) {
	n := float64(len(x.first))
	if n == 0 {
		b.row(what, "no signals")
		return
	}
	s := x.first.statistics()
	if s.Count < backtest.MinForRates {
		b.row(what, "%d signals, %d closed in profit (too few for rates)", s.Count, s.Wins)
		return
	}
	gross, net := x.first.breakEvens()
	b.row(what, "%d signals: confidence %.4f, hit rate %.4f (95 %%: %.4f to %.4f), slope %+.2f ± %.2f, Brier skill %+.4f; "+
		"break-even told %.3f, seen %.3f, after costs %.3f, %.3f; mean R told %+.3f, seen %+.3f",
		s.Count, s.MeanConfidence, s.HitRate, s.HitRateInterval.Low, s.HitRateInterval.High, s.Slope, s.SlopeError, s.BrierSkill,
		x.told.BreakEven/n, gross, x.told.BreakEvenNet/n, net, x.told.ExpectedR/n, s.MeanR)
}

// quintiles returns mean confidence and hit rate of each fifth of the signals by their
// confidence.
func quintiles(f forecasts) string {
	f = slices.Clone(f)
	slices.SortFunc(f, func(x, y forecast) int { return cmp.Compare(x.confidence, y.confidence) })
	var text []string
	for q := range 5 {
		s := f[q*len(f)/5 : (q+1)*len(f)/5].statistics()
		if s.Count < backtest.MinForRates {
			text = append(text, fmt.Sprintf("%.3f→%d of %d", s.MeanConfidence, s.Wins, s.Count))
			continue
		}
		text = append(text, fmt.Sprintf("%.3f→%.3f", s.MeanConfidence, s.HitRate))
	}
	return strings.Join(text, ", ")
}

// expectations returns the mean of expected and of seen R of each fifth of the signals by
// their expectation.
func expectations(f forecasts) string {
	f = slices.Clone(f)
	slices.SortFunc(f, func(x, y forecast) int { return cmp.Compare(x.confidence, y.confidence) })
	var text []string
	for q := range 5 {
		s := f[q*len(f)/5 : (q+1)*len(f)/5].statistics()
		text = append(text, fmt.Sprintf("%+.3f→%+.3f", s.MeanConfidence, s.MeanR))
	}
	return strings.Join(text, ", ")
}
