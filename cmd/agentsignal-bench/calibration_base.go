package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	baseHours   = 3000 // of an asset
	baseFrom    = 400  // the first hour with entries
	baseSpacing = 23   // hours from one entry to the next
	baseMiss    = 0.01 // maximum distance between what all entries were told and what was seen
	reachMiss   = 0.03 // the same for those of one reach
)

// What base probabilities are measured on. Not all combinations are possible.
var (
	baseStops, baseTargets = []float64{0.5, 1.5, 5}, []float64{0.3, 1, 3, 10} // in ATR
	baseExpiries           = []float64{10, 50, 200, 500}                      // in bars
)

// baseReaches returns the combinations that are possible.
func baseReaches() (reaches []strategy.Reach) {
	for _, bars := range baseExpiries {
		for _, stop := range baseStops {
			for _, target := range baseTargets {
				if target >= stop/5 { // else the service refuses the signal
					reaches = append(reaches, strategy.Reach{Stop: stop, Target: target, Bars: bars})
				}
			}
		}
	}
	return reaches
}

// leaving is how an agent without skill closes its signals: it reports whether to leave, given
// its result in R.
type leaving struct {
	name string
	when func(r float64) bool
}

// leavings holds those that could be thought to earn skill. The first waits for the end.
var leavings = []leaving{
	{"waits for the end", nil},
	{"leaves at once", func(float64) bool { return true }},
	{"leaves with the first profit", func(r float64) bool { return r > 0 }},
	{"leaves before the stop", func(r float64) bool { return r < -0.8 }},
}

// toldSeen sums up what entries were told and what became of them.
type toldSeen struct{ n, told, seen, even, gain, loss float64 }

func (x toldSeen) plus(y toldSeen) toldSeen {
	return toldSeen{x.n + y.n, x.told + y.told, x.seen + y.seen, x.even + y.even, x.gain + y.gain, x.loss + y.loss}
}

// miss returns how much more often the entries were told to close in profit than they did.
func (x toldSeen) miss() float64 { return (x.told - x.seen) / x.n }

// evens returns the hit rate at which the entries would have broken even.
func (x toldSeen) evens() float64 {
	win, loss := x.gain/x.seen, x.loss/(x.n-x.seen)
	return loss / (win + loss)
}

// bases are entries by how they were left and by reach.
type bases struct {
	reaches []strategy.Reach
	entries [][]toldSeen
}

func newBases(reaches []strategy.Reach) bases {
	b := bases{reaches, make([][]toldSeen, len(leavings))}
	for i := range b.entries {
		b.entries[i] = make([]toldSeen, len(reaches))
	}
	return b
}

// summary returns all entries that were left in a way, and how far those of a reach were off at most.
func (b bases) summary(leaving int) (all toldSeen, worst float64) {
	for _, x := range b.entries[leaving] {
		all, worst = all.plus(x), max(worst, math.Abs(x.miss()))
	}
	return all, worst
}

// printBases prints how base probabilities compare with what became of entries, by trades and by bars.
func printBases(ctx context.Context, r *report) error {
	for _, byTicks := range []bool{true, false} {
		found, err := measureBases(ctx, calibrationAssets, baseReaches(), byTicks, baseHours)
		if err != nil {
			return err
		}
		by := "bars"
		if byTicks {
			by = "trades"
		}
		fmt.Fprintf(r.out, "  base probability at any levels, the simulated market, 1h, closed by %s, seed %d: "+
			"by target in ATR, told→seen\n", by, calibrationSeed)
		var rows []string
		of := map[string][]string{}
		for i, x := range found.reaches {
			row, e := fmt.Sprintf("stop %g ATR, expiry after %g bars", x.Stop, x.Bars), found.entries[0][i]
			if of[row] == nil {
				rows = append(rows, row)
			}
			of[row] = append(of[row], fmt.Sprintf("%g: %.3f→%.3f", x.Target, e.told/e.n, e.seen/e.n))
		}
		for _, row := range rows {
			r.row(row, "%s", strings.Join(of[row], ", "))
		}
		var even, evens float64
		for _, x := range found.entries[0] {
			even, evens = even+x.even/x.n, evens+x.evens()
		}
		n := float64(len(found.reaches))
		r.row("break-even, mean of all", "%.4f→%.4f", even/n, evens/n)
		for i, l := range leavings {
			all, worst := found.summary(i)
			r.row("an agent that "+l.name, "%.0f entries: %.4f→%.4f, apart %+.4f (at most %.2f), of one row and target %.3f "+
				"(at most %.2f)", all.n, all.told/all.n, all.seen/all.n, all.miss(), baseMiss, worst, reachMiss)
		}
	}
	return nil
}

// measureBases returns what entries on simulated assets were told and what was seen. The last of reaches
// lives longest.
func measureBases(
	ctx context.Context, symbols []string, reaches []strategy.Reach, byTicks bool, hours int,
) (bases, error) {
	of := make([]bases, len(symbols))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, symbol := range symbols {
		group.Go(func() error {
			of[i] = newBases(reaches)
			return of[i].measure(ctx, simulated.Walk(calibrationSeed, symbol, signal.M1, hours*60), byTicks)
		})
	}
	err := group.Wait()
	sum := newBases(reaches)
	for _, one := range of {
		for i := range one.entries {
			for j, x := range one.entries[i] {
				sum.entries[i][j] = sum.entries[i][j].plus(x)
			}
		}
	}
	return sum, err
}

// measure enters an asset in both directions. Signals that trades close follow its bars of 1m.
func (b bases) measure(ctx context.Context, minutes []marketdata.Bar, byTicks bool) error {
	hours, each := hourly(minutes), 60
	path := minutes
	if !byTicks {
		path, each = hours, 1
	}
	series := strategy.NewSeries(signal.H1)
	for j := 0; j+int(b.reaches[len(b.reaches)-1].Bars) < len(hours); j++ {
		if err := series.Append(hours[j]); err != nil {
			return err
		}
		if j < baseFrom || j%baseSpacing != 0 {
			continue
		}
		for i, r := range b.reaches {
			base, err := series.BaseAt(r, byTicks)
			if err != nil {
				return err
			}
			for _, d := range []signal.Direction{signal.Long, signal.Short} {
				life := path[(j+1)*each : (j+1+int(r.Bars))*each]
				for k := range leavings {
					c := entered(d, hours[j].Close, base, r)
					leavings[k].close(&c, life)
					x := toldSeen{n: 1, told: base.Prior, even: base.Loss / (base.Win + base.Loss)}
					t, _ := c.Trial()
					x.seen = t.Won
					result := strategy.R(d, c.Levels, c.Exit)
					x.gain, x.loss = max(0, result), max(0, -result)
					b.entries[k][i] = b.entries[k][i].plus(x)
				}
			}
		}
	}
	return ctx.Err()
}

// entered returns an open signal of the given reach.
func entered(d signal.Direction, entry float64, base strategy.Base, r strategy.Reach) strategy.ClosedSignal {
	atr := base.ATR
	if d == signal.Short {
		atr = -atr
	}
	l := signal.Levels{Entry: entry, Stop: entry - r.Stop*atr, Target: entry + r.Target*atr}
	return strategy.ClosedSignal{Base: base.Prior, Direction: d, Levels: l, Reach: r}
}

// agentExit is the reason of a signal that its agent closed.
const agentExit signal.CloseReason = "agent_exit"

// close closes an open signal, given the bars until its expiry.
func (l leaving) close(c *strategy.ClosedSignal, life []marketdata.Bar) {
	for i := range life {
		if e, ok := strategy.ExitOnBar(c.Direction, c.Levels, life[i]); ok {
			c.Reason, c.Exit = e.Reason, e.Price
			return
		}
		c.Reason, c.Exit = signal.Expired, life[i].Close
		if left := len(life) - 1 - i; left > 0 && l.when != nil && l.when(strategy.R(c.Direction, c.Levels, c.Exit)) {
			c.Reason, c.Left = agentExit, float64(left)/float64(len(life))
			return
		}
	}
}

// hourly returns the bars of 1h that bars of 1m make.
func hourly(minutes []marketdata.Bar) []marketdata.Bar {
	var bars []marketdata.Bar
	for i := 0; i+60 <= len(minutes); i += 60 {
		b := minutes[i]
		for _, m := range minutes[i+1 : i+60] {
			b.High, b.Low, b.Volume = max(b.High, m.High), min(b.Low, m.Low), b.Volume+m.Volume
		}
		b.Close, b.CloseTime = minutes[i+59].Close, minutes[i+59].CloseTime
		bars = append(bars, b)
	}
	return bars
}
