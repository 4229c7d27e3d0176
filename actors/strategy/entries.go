package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// entries holds how the entries at the bars of a series ended, and estimates from those and from the
// outcomes of its pool.
type entries struct {
	*scoredBars
	tick float64 // 0: unknown

	outcomes [3][]outcome // by risk level; the j-th belongs to bars[j]
	records  [3]*record   // by risk level; nil: not computed for the last bar
	view     view
	found    func(Outcome)
	pooled   int // the index of the first bar whose outcome is not in the pool
}

// inPool sets the pool, as Series.InPool does.
func (e *entries) inPool(p *Pool, asset string, found func(Outcome)) {
	e.view, e.found = view{pool: p, own: asset}, func(o Outcome) { p.Add(asset, o) }
	if found != nil {
		e.found = func(o Outcome) {
			e.view.recent = append(e.view.recent, o)
			found(o)
		}
	}
}

// reset forgets all bars.
func (e *entries) reset() {
	for i := range e.outcomes {
		e.outcomes[i] = e.outcomes[i][:0]
	}
	e.pooled, e.view = 0, view{pool: e.view.pool, own: e.view.own}
}

// retract removes the outcomes that depend on the last bar, which was replaced.
func (e *entries) retract() {
	for i, risk := range signal.RiskLevels {
		ended := max(0, len(e.bars)-1-Horizon(e.tf, risk))
		e.outcomes[i] = e.outcomes[i][:min(ended, len(e.outcomes[i]))]
	}
}

// trim drops the outcomes of the oldest bars.
func (e *entries) trim() {
	for i := range e.outcomes {
		e.outcomes[i] = dropFirst(e.outcomes[i], slack)
	}
	e.pooled = max(0, e.pooled-slack)
}

// resolve brings the outcomes of all risk levels up to date with the bars.
func (e *entries) resolve() {
	for r, risk := range signal.RiskLevels {
		e.outcomes[r] = resolve(e.outcomes[r], e.bars, e.history, Horizon(e.tf, risk), StopMultiple(risk), e.tick)
	}
	e.pool()
}

// pool adds the outcomes that are new to the pool. Those that the last bar decided wait
// for the next one, since the last bar may be replaced.
func (e *entries) pool() {
	for ; e.pooled+e.longest() < len(e.bars)-1; e.pooled++ {
		if o, ok := e.outcomeAt(e.pooled); ok {
			e.found(o)
		}
	}
	e.view.advance(e.last.Bar.CloseTime, e.barTime())
}

// comparable returns the entries that compare with one of the t-th strategy at the r-th risk
// level, and what the past shows of such comparisons.
func (e *entries) comparable(t, r int, bin uint8) (comparables, evidence) {
	v := &e.view
	c := comparables{any: v.results.both(r), anySide: v.results.side(int(bin/strengthBins), r)}
	c.all, c.side, c.near = v.all[t].comparable(bin, r)
	_, _, c.own = v.mine[t].comparable(bin, r)
	return c, v.past.evidence(r, overlap(Horizon(e.tf, signal.RiskLevels[r])))
}

// longest returns the greatest horizon over all risk levels.
func (e *entries) longest() int { return Horizon(e.tf, signal.HighRisk) }

// outcomeAt returns the outcome of bar j, whose entries at all risk levels are resolved,
// or false if the bar has no score.
func (e *entries) outcomeAt(j int) (Outcome, bool) {
	p := &e.history[j]
	if !p.scored {
		return Outcome{}, false
	}
	ended := e.bars[j+e.longest()].CloseTime
	o := Outcome{Bar: e.bars[j].OpenTime, Ended: ended, At: ended}
	for t, score := range p.scores {
		o.Bins[t] = binOf(math.Abs(score), directionOf(score, p.belowMean))
	}
	for r := range e.outcomes {
		o.R[0][r], o.R[1][r] = packR(e.outcomes[r][j].long), packR(e.outcomes[r][j].short)
	}
	return o, true
}

// recall makes the outcomes of the asset that the pool has from before bars count from their end, as
// Series.Recall does.
func (e *entries) recall(bars []marketdata.Bar) {
	p := e.view.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.of[e.view.own]
	if o == nil {
		return
	}
	for i := range o.kept {
		if x := o.kept[i].Outcome; x.Bar < firstScored(bars) {
			x.At = x.Ended
			e.view.recent = append(e.view.recent, x)
		}
	}
}

// record returns the outcomes of all entries whose horizon has passed, for the r-th risk
// level.
func (e *entries) record(r int) *record {
	if e.records[r] != nil {
		return e.records[r]
	}
	e.resolve()
	known := e.outcomes[r]
	c := &record{}
	if from := e.scoredFrom(); from < len(known) {
		var before sums // none: bars are only dropped when there are far more than count
		if from > 0 {
			before = known[from-1].sums
		}
		c = known[len(known)-1].sums.since(&before)
	}
	e.records[r] = c
	return c
}

// calibrate sets the confidence of a by the scores at the bars, which are NaN where there is none.
func (e *entries) calibrate(a *Assessment, b Base, scores []float64) {
	known := e.outcomes[riskIndex(a.Risk)]
	strength := math.Abs(a.Score)
	var place rank
	c := comparables{any: *e.record(riskIndex(a.Risk))}
	for j, score := range scores[:len(e.history)-1] {
		if math.IsNaN(score) {
			continue
		}
		place.add(math.Abs(score), strength)
		if j < len(known) {
			d, one := directionOf(score, e.history[j].belowMean), count{n: 1}
			if known[j].of(d) > 0 {
				one.won = 1
			}
			c.all = c.all.plus(1, one)
			if d == a.Direction {
				x := (math.Abs(score) - strength) / kernelWidth
				c.side, c.near = c.side.plus(1, one), c.near.plus(math.Exp(-0.5*x*x), one)
			}
		}
	}
	estimated := estimateFrom(b, c, evidence{weight: overlap(b.Horizon), both: overlap(b.Horizon)})
	if c.all.n < minOutcomes {
		p := clip(b.Prior+priorSpread*math.Tanh(strength), minConfidence, maxConfidence)
		estimated = estimate{confidence: p, sample: b.Entries, share: math.NaN()}
	} else {
		a.Calibration = ""
	}
	a.set(estimated, place)
}

// outcome holds the results in R of a long and a short entry at one bar's close;
// positive: closed in profit. Both are NaN if the bar has no score. sums has all outcomes since the series
// began up to this one.
type outcome struct {
	long, short float64
	sums        sums
}

// of returns the outcome of an entry in direction d.
func (o outcome) of(d signal.Direction) float64 {
	if d == signal.Short {
		return o.short
	}
	return o.long
}

// replay enters at the close of bars[0] and follows the next horizon bars by the rules
// for open signals. It returns the result in R.
func replay(d signal.Direction, bars []marketdata.Bar, horizon int, atr, multiple, tick float64) float64 {
	entry := bars[0].Close
	stop, target := distances(d, entry, atr, multiple, tick)
	if d == signal.Short {
		stop, target = -stop, -target
	}
	l := signal.Levels{Entry: entry, Stop: entry - stop, Target: entry + target}
	for i := 1; i <= horizon; i++ {
		if e, ok := ExitOnBar(d, l, bars[i]); ok {
			return R(d, l, e.Price)
		}
	}
	return R(d, l, ExitOnExpiry(bars[horizon].Close).Price)
}

// resolve appends to known the outcomes of all bars whose horizon has passed. known[j]
// belongs to bars[j] and never changes.
func resolve(known []outcome, bars []marketdata.Bar, history []reading, horizon int, multiple, tick float64) []outcome {
	var all sums
	if n := len(known); n > 0 {
		all = known[n-1].sums
	}
	for j := len(known); j+horizon < len(bars); j++ {
		o := outcome{long: math.NaN(), short: math.NaN()}
		if history[j].scored {
			o.long = replay(signal.Long, bars[j:], horizon, history[j].atr, multiple, tick)
			o.short = replay(signal.Short, bars[j:], horizon, history[j].atr, multiple, tick)
			all.add(o)
		}
		o.sums = all
		known = append(known, o)
	}
	return known
}
