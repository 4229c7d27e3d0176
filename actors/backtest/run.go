package backtest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Options selects what is replayed.
type Options struct {
	strategy.Origin
	Strategy  string
	Timeframe signal.Timeframe
	Risk      signal.RiskLevel
	// From and To bound the times at which signals are made, both inclusive, in
	// milliseconds; 0: no bound. Bars before From still count as history.
	From, To int64
	Overlap  bool // signals are made while another one is open
	// Slippage is how far beyond the stop a signal is closed whose bar did not open there,
	// in R: live ones are closed by the trade that passes the stop.
	Slippage float64
	Jumps    bool // bars may open any distance from the close before, also as after a split
	// Cuts has the indices of bars that follow an outage, ascending. History begins again there, and signals that are open
	// end with the last bar before.
	Cuts []int
	// Pool has the outcomes of other assets and those of the asset, named PoolKey there, from
	// before the bars; those of the bars are added. Nil: only these count.
	Pool    *strategy.Pool
	PoolKey string
	News    []strategy.NewsItem // for sentiment: the news in any order
	// Metadata is whether trades have metadata, which take longer than all the rest.
	Metadata bool
	// Each is called with each trade when it is made, and what it rests on; nil: not called.
	Each func(*Trade, *strategy.Assessment)

	parts int // that are replayed at the same time; 0: by their length
}

// Trade is a signal of a backtest.
type Trade struct {
	strategy.Evaluation
	Bar       int   // index of the bar at whose close it was made
	CreatedAt int64 // milliseconds: that close
	// How it ended; Exit is the zero Exit while it is open at the end of the bars.
	Exit      strategy.Exit
	ExitBar   int
	ClosedAt  int64
	Excursion strategy.Excursion
}

// Open reports whether the trade has not ended by the last bar.
func (t *Trade) Open() bool { return t.Exit == strategy.Exit{} }

// Outcome returns the outcome of a trade that has ended. cost is that of entry and of exit
// each, as a share of the price.
func (t *Trade) Outcome(cost float64) Outcome {
	created, closed := time.UnixMilli(t.CreatedAt), time.UnixMilli(t.ClosedAt)
	return Outcome{At: t.ClosedAt, R: strategy.R(t.Direction, t.Levels, t.Exit.Price),
		Cost: strategy.CostR(t.Levels, t.Exit.Price, cost), Target: strategy.R(t.Direction, t.Levels, t.Levels.Target),
		Confidence: t.Confidence, Reason: t.Exit.Reason,
		Minutes: strategy.DurationMinutes(created, closed), MFE: t.Excursion.Best, MAE: t.Excursion.Worst}
}

// Point is a point of the equity curve: the sum of results after costs.
type Point struct {
	At int64 // milliseconds
	R  float64
}

// MarshalJSON implements json.Marshaler.
func (p Point) MarshalJSON() ([]byte, error) {
	b := signal.AppendTime([]byte(`{"at":`), time.UnixMilli(p.At))
	r, err := Figure(p.R).MarshalJSON()
	return append(append(append(b, `,"r":`...), r...), '}'), err
}

// Result is the result of a backtest. Its JSON is sent to clients.
type Result struct {
	Trades     []Trade    `json:"-"` // by creation; the last ones may be open
	Statistics Statistics `json:"statistics"`
	Equity     []Point    `json:"equity"` // after each bar with which a trade ended
	// Greatest is the greatest jump of the bars that were used; nil if there is none.
	Greatest *Jump `json:"greatest_jump"`
}

const (
	// checkEvery is the number of bars after which Run checks whether ctx has ended.
	checkEvery = 256
	// minPart is the least number of bars that are worth a processor of their own, and lead that of bars before them,
	// which decide what a series of them says (doc.go of package strategy).
	minPart = 30_000
	lead    = strategy.MaxOutcomes + 2500
)

// Run replays a strategy over bars, which are those of one asset and timeframe in order,
// with gaps filled (strategy.FillGaps). At the close of each bar the strategy is
// evaluated on the bars so far, as in a live run; if that fails there is no signal. Exits
// are possible from the next bar on. The error is a *signal.RunError,
// INSUFFICIENT_HISTORY if no bar allowed a signal and DATA_UNAVAILABLE for impossible
// bars and for jumps (JumpError), or that of ctx. Jumps before From and after To only bound
// the bars.
func Run(ctx context.Context, bars []marketdata.Bar, o Options) (Result, error) {
	bars, greatest, err := o.unbroken(bars)
	if err != nil {
		return Result{}, err
	}
	const noBars = "there are no bars in the requested time"
	parts := max(1, cmp.Or(o.parts, min(runtime.GOMAXPROCS(0), len(bars)/minPart)))
	if o.Pool != nil || o.Each != nil || o.Strategy == strategy.Sentiment {
		parts = 1
	}
	replays := make([]*replay, parts)
	var group errgroup.Group
	for p := range replays {
		r := &replay{o: &o, bars: bars, next: p * len(bars) / parts, until: (p + 1) * len(bars) / parts,
			last: &signal.RunError{Code: signal.InsufficientHistory, Message: noBars}}
		replays[p] = r
		group.Go(func() error { return r.run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	r := replays[0]
	for _, following := range replays[1:] {
		if r, err = r.join(ctx, following); err != nil {
			return Result{}, err
		}
	}
	var trades []Trade
	for _, r := range replays {
		trades = append(trades, r.trades...)
	}
	if len(trades) == 0 {
		return Result{}, r.last
	}
	result := summarize(trades, o.Cost)
	result.Greatest = greatest
	return result, nil
}

// replay replays a part of the bars, from next to until.
type replay struct {
	o           *Options
	bars        []marketdata.Bar
	next, until int

	pool   *strategy.Pool
	series *strategy.Series
	end    int // of the bars without an outage
	free   int // the first bar at whose close a signal may be made
	trades []Trade
	last   error // why there was no signal
}

// run replays the part. The bars before it that decide what is said about it come first.
func (r *replay) run(ctx context.Context) error {
	first := r.next
	from := max(0, first-lead)
	if r.pool = r.o.Pool; r.pool == nil {
		r.pool = strategy.NewPool(strategy.MaxOutcomes + lead) // some of the newest do not count yet
	}
	r.series = nil
	for i := from; i < r.until; i++ {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i == first && from > 0 {
			r.series.Resolve()
		}
		if i == first && from > 0 && r.pool.Known(r.bars[i-1].CloseTime) < strategy.MaxOutcomes {
			r.pool, r.series, from, i = strategy.NewPool(strategy.MaxOutcomes+lead), nil, 0, 0 // the market did not move
		}
		if err := r.step(i, i >= first); err != nil {
			return err
		}
	}
	r.next = r.until
	return nil
}

// step adds a bar, and makes a signal at its close if that is asked for and possible.
func (r *replay) step(i int, asked bool) error {
	b, o := r.bars[i], r.o
	if r.series == nil || i == r.end {
		if r.series != nil {
			r.series.Resolve() // what has ended before the outage counts after it
		}
		r.series = strategy.NewSeries(o.Timeframe).WithTick(o.Tick).InPool(r.pool, o.PoolKey, nil).AllowJumps()
		if !o.Metadata {
			r.series.Terse()
		}
		r.end = len(r.bars)
		if c, _ := slices.BinarySearch(o.Cuts, i+1); c < len(o.Cuts) {
			r.end = o.Cuts[c]
		}
	}
	if err := r.series.Append(b); err != nil {
		const message = "the bars are not possible"
		return &signal.RunError{Code: signal.DataUnavailable, Message: message, Cause: err}
	}
	at := b.CloseTime
	if !asked || i < r.free || at < o.From || o.To != 0 && at > o.To {
		return nil
	}
	a, c, err := evaluate(r.series, o, b)
	if err != nil {
		if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code == signal.Internal {
			return err
		}
		r.last = err
		return nil
	}
	t := Trade{Evaluation: c, Bar: i, CreatedAt: at}
	t.follow(r.bars[:r.end], strategy.Horizon(o.Timeframe, o.Risk), o.Slippage)
	if last := r.end - 1; t.Open() && r.end < len(r.bars) {
		t.Exit, t.ExitBar, t.ClosedAt = strategy.ExitOnExpiry(r.bars[last].Close), last, r.bars[last].CloseTime
	}
	if len(r.trades) == cap(r.trades) {
		r.trades = slices.Grow(r.trades, len(r.trades)+1) // they are large: twice as many, not a quarter more
	}
	if r.trades = append(r.trades, t); o.Each != nil {
		o.Each(&r.trades[len(r.trades)-1], &a)
	}
	switch {
	case o.Overlap:
	case t.Open():
		r.free = len(r.bars)
	default:
		r.free = t.ExitBar
	}
	return nil
}

// join goes on with r until the replay of the following part makes a signal at the same bar, from which on both are the
// same: that one began without knowing until when a signal was open. It returns the replay that goes on.
func (r *replay) join(ctx context.Context, following *replay) (*replay, error) {
	for ; r.next < following.until; r.next++ {
		if r.next%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		made := len(r.trades)
		if err := r.step(r.next, true); err != nil {
			return nil, err
		}
		if len(r.trades) == made {
			continue
		}
		byBar := func(t Trade, bar int) int { return cmp.Compare(t.Bar, bar) }
		if i, ok := slices.BinarySearchFunc(following.trades, r.next, byBar); ok {
			r.trades, following.trades = r.trades[:made], following.trades[i:]
			return following, nil
		}
	}
	following.trades = nil
	return r, nil
}

// unbroken returns the bars without those after a jump after To, and their greatest jump. History begins again at jumps
// before From. What opens too far from the close before in between is an error: what follows would be a backtest of other
// bars.
func (o *Options) unbroken(bars []marketdata.Bar) ([]marketdata.Bar, *Jump, error) {
	greatest, jumps := FindJumps(bars, o.Timeframe, o.Cuts)
	if o.Jumps || len(jumps) == 0 {
		return bars, greatest, nil
	}
	o.Cuts = slices.Clone(o.Cuts)
	for _, j := range jumps {
		if o.To != 0 && j.At >= o.To {
			bars = bars[:j.bar]
			break
		}
		if o.From == 0 || j.At >= o.From {
			cause := &JumpError{j}
			return nil, nil, &signal.RunError{Code: signal.DataUnavailable, Cause: cause,
				Message: cause.Error() + ", which is a split or a fault of the source"}
		}
		o.Cuts = append(o.Cuts, j.bar)
	}
	o.Cuts = slices.DeleteFunc(o.Cuts, func(c int) bool { return c >= len(bars) })
	slices.Sort(o.Cuts)
	greatest, _ = FindJumps(bars, o.Timeframe, o.Cuts)
	return bars, greatest, nil
}

// evaluate returns the signal at the close of b, the newest bar of series, and what it rests on.
func evaluate(series *strategy.Series, o *Options, b marketdata.Bar) (a strategy.Assessment, e strategy.Evaluation, err error) {
	if o.Strategy == strategy.Sentiment {
		a, err = series.AssessSentiment(o.News, o.Risk, b.CloseTime)
	} else {
		a, err = series.Assess(o.Strategy, o.Risk)
	}
	switch {
	case err != nil:
	case o.Metadata:
		e, err = a.Evaluate(o.Origin, b.Close)
	default:
		e, err = a.Enter(o.Origin, b.Close)
	}
	return a, e, err
}

// follow looks for the end of t in the horizon bars after its own.
func (t *Trade) follow(bars []marketdata.Bar, horizon int, slippage float64) {
	for i := t.Bar + 1; i < len(bars) && i <= t.Bar+horizon; i++ {
		b := bars[i]
		exit, ended := strategy.ExitOnBar(t.Direction, t.Levels, b)
		if ended {
			if exit.Price == t.Levels.Stop {
				exit.Price -= slippage * (t.Levels.Entry - t.Levels.Stop)
			}
			// The part of the bar beyond the level does not count.
			open := max(min(t.Levels.Stop, t.Levels.Target), min(b.Open, max(t.Levels.Stop, t.Levels.Target)))
			t.Excursion = t.Excursion.Observe(t.Direction, t.Levels, min(open, exit.Price), max(open, exit.Price))
		} else {
			t.Excursion = t.Excursion.Observe(t.Direction, t.Levels, b.Low, b.High)
			if i == t.Bar+horizon {
				exit, ended = strategy.ExitOnExpiry(b.Close), true
			}
		}
		if ended {
			t.Exit, t.ExitBar, t.ClosedAt = exit, i, b.CloseTime
			return
		}
	}
}

// summarize computes the statistics and the equity curve of the trades that have ended.
func summarize(trades []Trade, cost float64) Result {
	r := Result{Trades: trades, Equity: []Point{}}
	var outcomes []Outcome
	for i := range trades {
		if !trades[i].Open() {
			outcomes = append(outcomes, trades[i].Outcome(cost))
		}
	}
	r.Statistics = Summarize(outcomes)
	sum := 0.0
	for _, o := range outcomes {
		sum += o.R - o.Cost
		if n := len(r.Equity); n > 0 && r.Equity[n-1].At == o.At {
			r.Equity[n-1].R = sum // several trades ended with the same bar
			continue
		}
		r.Equity = append(r.Equity, Point{o.At, sum})
	}
	return r
}

// At returns the trade made at the close of the bar with the given index.
func (r *Result) At(bar int) (Trade, bool) {
	i, ok := slices.BinarySearchFunc(r.Trades, bar, func(t Trade, bar int) int { return cmp.Compare(t.Bar, bar) })
	if !ok {
		return Trade{}, false
	}
	return r.Trades[i], true
}

// Costs holds the cost of an entry or an exit in basis points of the price, by the class
// of the asset.
type Costs struct{ Crypto, Stock, FX, Commodity float64 }

// DefaultCosts are those of inexpensive venues.
var DefaultCosts = Costs{Crypto: 10, Stock: 2, FX: 1, Commodity: 3}

// DefaultSlippage is the median slippage past the stop on 1h, in R. The benchmark calibration
// measures it on the simulated market, which has ten trades a minute.
const DefaultSlippage = 0.008

// SlippageOn returns the slippage of a timeframe, given that on 1h. Finer timeframes pay more, because
// their stops are nearer: 0.031 R on 5m and 0.081 R on 1m were measured with 0.008 R on 1h. That on 15m lies between, as a power
// of the length.
func SlippageOn(tf signal.Timeframe, hourly float64) float64 {
	switch tf {
	case signal.M1:
		return hourly * 81 / 8
	case signal.M5:
		return hourly * 31 / 8
	case signal.M15:
		return hourly * 17 / 8
	default:
		return hourly // daily slippage was not measured
	}
}

// Of returns the cost as a share of the price. Metals count as commodities; an unknown
// class costs as much as the most expensive one.
func (c Costs) Of(class string) float64 {
	const basisPoints = 1e4 // in 1
	switch class {
	case "crypto":
		return c.Crypto / basisPoints
	case "stock":
		return c.Stock / basisPoints
	case "fx":
		return c.FX / basisPoints
	case "commodity", "metal":
		return c.Commodity / basisPoints
	}
	return max(c.Crypto, c.Stock, c.FX, c.Commodity) / basisPoints
}
