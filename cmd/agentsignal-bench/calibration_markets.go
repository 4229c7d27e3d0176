package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/backtest/barfile"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// assetBars is an asset with its bars.
type assetBars struct {
	asset, class string
	cost         float64 // of entry and of exit each, as a share of the price
	bars         []marketdata.Bar
	cuts         []int           // of bars after an outage
	greatest     *backtest.Jump  // of the bars; nil if they are too few
	file         *barfile.Report // nil for the simulated market
}

// marketOf returns an asset with the default cost of its class.
func marketOf(asset, class string, bars []marketdata.Bar) assetBars {
	return assetBars{asset: asset, class: class, cost: backtest.DefaultCosts.Of(class), bars: bars}
}

// told is what a signal said when it was made.
type told struct {
	BreakEven, BreakEvenNet float64
	ExpectedR, ExpectedNet  float64
	Interval                [2]float64
	claim                   string // "an edge", "a loss" or empty
}

// toldBy returns what the metadata of a trade would say.
func toldBy(t *backtest.Trade, a *strategy.Assessment, cost float64) told {
	cost = strategy.CostR(t.Levels, t.Levels.Entry, cost)
	x := told{BreakEven: a.BreakEven(0), BreakEvenNet: a.BreakEven(cost), ExpectedR: a.ExpectedR(0), ExpectedNet: a.ExpectedR(cost),
		claim: claimIn(a.Verdict(cost))}
	x.Interval[0], x.Interval[1] = a.Interval()
	return x
}

// claimIn returns what a verdict claims: an edge, a loss, or nothing.
func claimIn(verdict string) string {
	claim, _ := strings.CutPrefix(verdict, "the past speaks for ")
	if !slices.Contains(claims, claim) {
		return ""
	}
	return claim
}

var claims = []string{"an edge", "a loss"}

// measuredSignal is a signal that has ended.
type measuredSignal struct {
	told
	backtest.Outcome
	asset, strategy string
	direction       signal.Direction
	createdAt       int64
	now             [len(rescoredAfter)]float64 // re-scored confidence; 0: it had ended
}

// net returns the result after costs in R.
func (m *measuredSignal) net() float64 { return m.R - m.Cost }

// month numbers the month in which it was made.
func (m *measuredSignal) month() int {
	at := time.UnixMilli(m.createdAt).UTC()
	return at.Year()*12 + int(at.Month()) - 1
}

// measured holds signals that have ended.
type measured []measuredSignal

// statistics returns the statistics of the signals.
func (x measured) statistics() backtest.Statistics {
	outcomes := make([]backtest.Outcome, len(x))
	for i := range x {
		outcomes[i] = x[i].Outcome
	}
	return backtest.Summarize(outcomes)
}

// where returns the signals that f selects.
func (x measured) where(f func(m *measuredSignal) bool) measured {
	var found measured
	for i := range x {
		if f(&x[i]) {
			found = append(found, x[i])
		}
	}
	return found
}

// mean returns the mean of f over the signals, and its error, where the signals of a month count
// as one observation.
func (x measured) mean(f func(m *measuredSignal) float64) (mean, err float64) {
	for i := range x {
		mean += f(&x[i]) / float64(len(x))
	}
	months := map[int]float64{}
	for i := range x {
		months[x[i].month()] += f(&x[i]) - mean
	}
	for _, off := range months {
		err += off * off
	}
	return mean, math.Sqrt(err) / float64(len(x))
}

// breakEvens returns the hit rates at which the signals would have broken even before and
// after costs.
func (x measured) breakEvens() (gross, net float64) {
	var win, loss, wins, losses, cost float64
	for i := range x {
		cost += x[i].Cost
		if x[i].R > 0 {
			win, wins = win+x[i].R, wins+1
		} else {
			loss, losses = loss-x[i].R, losses+1
		}
	}
	win, loss, cost = win/wins, loss/losses, cost/(wins+losses)
	return loss / (win + loss), (loss + cost) / (win + loss)
}

// rescored returns the signals that lived longer than the i-th number of bars after which
// confidence is re-scored, with the confidence that they had then.
func (x measured) rescored(i int) measured {
	found := x.where(func(m *measuredSignal) bool { return m.now[i] > 0 })
	for j := range found {
		found[j].Confidence = found[j].now[i]
	}
	return found
}

// intervals returns how many cells of an asset, a strategy and two years there are with at least
// minCell signals, and in how many of them the share that closed in profit is as far from the mean
// confidence as the interval of the signals and the chance of their number allow.
func (x measured) intervals() (covered, cells int) {
	const minCell, z = 100, 1.96
	type cell struct {
		asset, strategy string
		years           int
	}
	by := map[cell]measured{}
	for i := range x {
		c := cell{x[i].asset, x[i].strategy, x[i].month() / 24}
		by[c] = append(by[c], x[i])
	}
	for _, c := range by {
		if len(c) < minCell {
			continue
		}
		cells++
		s := c.statistics()
		half, _ := c.mean(func(m *measuredSignal) float64 { return (m.Interval[1] - m.Interval[0]) / 2 })
		p := float64(s.MeanConfidence)
		if math.Abs(float64(s.HitRate)-p) <= math.Hypot(half, z*math.Sqrt(p*(1-p)/float64(len(c)))) {
			covered++
		}
	}
	return covered, cells
}

// rescoredAfter lists the numbers of bars after which confidence is re-scored.
var rescoredAfter = [...]int{2, 5, 10, 20}

// endedSignals returns the signals of m that have ended, given what each said.
func endedSignals(m *assetBars, trades []backtest.Trade, said []told, o *backtest.Options) measured {
	horizon := strategy.Horizon(o.Timeframe, o.Risk)
	var found measured
	for i := range trades {
		t := &trades[i]
		if t.Open() {
			continue
		}
		x := measuredSignal{Outcome: t.Outcome(o.Cost), asset: m.asset, strategy: o.Strategy, direction: t.Direction,
			createdAt: t.CreatedAt}
		x.told = said[i]
		for i, after := range rescoredAfter {
			if t.ExitBar <= t.Bar+after {
				continue
			}
			left := float64(horizon-after) / float64(horizon)
			x.now[i] = strategy.Rescore(t.Confidence, t.Levels, o.Timeframe, o.Risk, left, m.bars[t.Bar+after].Close)
		}
		found = append(found, x)
	}
	return found
}

// poolOf returns the outcomes of all entries of the markets, each of which counts from its end.
func poolOf(markets []assetBars, tf signal.Timeframe) (*strategy.Pool, error) {
	pool := strategy.NewPool(0)
	for i := range markets {
		begin := 0
		for _, end := range append(slices.Clone(markets[i].cuts), len(markets[i].bars)) {
			series := strategy.NewSeries(tf).InPool(pool, markets[i].asset, nil)
			for _, bar := range markets[i].bars[begin:end] {
				if err := series.Append(bar); err != nil {
					return nil, fmt.Errorf("%s: %w", markets[i].asset, err)
				}
			}
			series.Resolve()
			begin = end
		}
	}
	return pool.Replayed("", nil), nil // in the order of their ends, of which the newest count
}

// measureMarkets measures a strategy on markets, whose outcomes are in pool, each from the time at which it was
// known.
func measureMarkets(
	ctx context.Context, markets []assetBars, pool *strategy.Pool, name string, tf signal.Timeframe, risk signal.RiskLevel,
) (measured, error) {
	options, said := make([]backtest.Options, len(markets)), make([][]told, len(markets))
	for i, m := range markets {
		origin := strategy.Origin{Asset: m.asset, Compression: 1, Cost: m.cost}
		options[i] = backtest.Options{Origin: origin, Strategy: name, Timeframe: tf, Risk: risk, Pool: pool,
			PoolKey: m.asset, Jumps: true, Cuts: m.cuts,
			Each: func(t *backtest.Trade, a *strategy.Assessment) { said[i] = append(said[i], toldBy(t, a, m.cost)) }}
	}
	results, err := replayAll(ctx, len(markets), func(i int) ([]marketdata.Bar, backtest.Options) {
		return markets[i].bars, options[i]
	})
	if err != nil {
		return nil, err
	}
	var all measured
	for i := range markets {
		all = append(all, endedSignals(&markets[i], results[i].Trades, said[i], &options[i])...)
	}
	return all, nil
}

// onMarkets prints how what the signals of all strategies told compares with their ends.
func (b *calibrationBenchmark) onMarkets(
	ctx context.Context, markets []assetBars, tf signal.Timeframe, risk signal.RiskLevel,
) error {
	pool, err := poolOf(markets, tf)
	if err != nil {
		return err
	}
	var all measured
	for _, name := range calibrated {
		one, err := measureMarkets(ctx, markets, pool, name, tf, risk)
		if err != nil {
			return err
		}
		b.measured(name, one)
		all = append(all, one...)
	}
	b.measured("all", all)
	if len(all) == 0 {
		return nil
	}
	b.row("  by quintile of confidence, mean and hit rate", "%s", quintiles(all))
	for _, d := range []signal.Direction{signal.Long, signal.Short} {
		side := all.where(func(m *measuredSignal) bool { return m.direction == d })
		b.netOf("  "+string(d)+", all", side)
		for _, claim := range claims {
			b.netOf("  "+string(d)+", with the claim of "+claim,
				side.where(func(m *measuredSignal) bool { return m.claim == claim }))
		}
	}
	slices.SortStableFunc(all, func(x, y measuredSignal) int { return cmp.Compare(x.ExpectedNet, y.ExpectedNet) })
	b.netOf("  top decile of expected R after costs", all[len(all)-len(all)/10:])
	covered, cells := all.intervals()
	b.row("  intervals cover, by asset, strategy and two years", "%d of %d", covered, cells)
	for i, after := range rescoredAfter {
		now := all.rescored(i)
		if len(now) < backtest.MinForRates {
			continue // signals do not live as long
		}
		s := now.statistics()
		b.row(fmt.Sprintf("after %d bars", after), "%d signals still open: confidence %.4f, hit rate %.4f, Brier skill %+.4f; "+
			"by quintile %s", s.Count, s.MeanConfidence, s.HitRate, s.BrierSkill, quintiles(now))
	}
	return nil
}

// netOf prints the mean result after costs that signals told and that was seen.
func (b *calibrationBenchmark) netOf(what string, x measured) {
	if len(x) < backtest.MinForRates {
		b.row(what, "%d signals", len(x))
		return
	}
	told, _ := x.mean(func(m *measuredSignal) float64 { return m.ExpectedNet })
	seen, _ := x.mean((*measuredSignal).net)
	_, err := x.mean(func(m *measuredSignal) float64 { return m.net() - m.ExpectedNet })
	s := x.statistics()
	b.row(what, "%d signals: net R told %+.3f, seen %+.3f ± %.3f; confidence %.4f, hit rate %.4f",
		len(x), told, seen, err, s.MeanConfidence, s.HitRate)
}

// measured prints what was measured of some signals.
func (b *calibrationBenchmark) measured(what string, x measured) {
	if len(x) == 0 {
		b.row(what, "no signals")
		return
	}
	s := x.statistics()
	if s.Count < backtest.MinForRates {
		b.row(what, "%d signals, %d closed in profit (too few for rates)", s.Count, s.Wins)
		return
	}
	gross, net := x.breakEvens()
	toldGross, _ := x.mean(func(m *measuredSignal) float64 { return m.BreakEven })
	toldNet, _ := x.mean(func(m *measuredSignal) float64 { return m.BreakEvenNet })
	told, _ := x.mean(func(m *measuredSignal) float64 { return m.ExpectedR })
	b.row(what, "%d signals: confidence %.4f, hit rate %.4f (95 %%: %.4f to %.4f), slope %+.2f ± %.2f, Brier skill %+.4f; "+
		"break-even told %.3f, seen %.3f, after costs %.3f, %.3f; mean R told %+.3f, seen %+.3f",
		s.Count, s.MeanConfidence, s.HitRate, s.HitRateInterval.Low, s.HitRateInterval.High, s.Slope, s.SlopeError, s.BrierSkill,
		toldGross, gross, toldNet, net, told, s.MeanR)
}

// quintiles returns mean confidence and hit rate of each fifth of the signals by their
// confidence.
func quintiles(x measured) string {
	x = slices.Clone(x)
	slices.SortFunc(x, func(a, b measuredSignal) int { return cmp.Compare(a.Confidence, b.Confidence) })
	var text []string
	for q := range 5 {
		s := x[q*len(x)/5 : (q+1)*len(x)/5].statistics()
		if s.Count < backtest.MinForRates {
			text = append(text, fmt.Sprintf("%.3f→%d of %d", s.MeanConfidence, s.Wins, s.Count))
			continue
		}
		text = append(text, fmt.Sprintf("%.3f→%.3f", s.MeanConfidence, s.HitRate))
	}
	return strings.Join(text, ", ")
}
