package backtest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Options say what is replayed.
type Options struct {
	strategy.Origin
	Strategy  string
	Timeframe signal.Timeframe
	Risk      signal.RiskLevel
	// From and To bound the times at which signals are made, both inclusive, in
	// milliseconds; 0: no bound. What lies before From is history all the same.
	From, To int64
	Cost     float64             // of entry and of exit each, as a share of the price
	Overlap  bool                // signals are made while one is open
	News     []strategy.NewsItem // for sentiment: what was reported, in any order
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

// Open says that the bars end before the trade does.
func (t *Trade) Open() bool { return t.Exit == strategy.Exit{} }

// Outcome returns how a trade ended that is not open. cost is as in Options.
func (t *Trade) Outcome(cost float64) Outcome {
	return Outcome{At: t.ClosedAt, R: strategy.R(t.Direction, t.Levels, t.Exit.Price), Cost: CostR(t.Levels, t.Exit.Price, cost),
		Confidence: t.Confidence, Minutes: strategy.DurationMinutes(time.UnixMilli(t.CreatedAt), time.UnixMilli(t.ClosedAt)),
		MFE: t.Excursion.Best, MAE: t.Excursion.Worst, Reason: t.Exit.Reason}
}

// CostR returns what entry and exit cost, in multiples of |Entry-Stop|; cost is that of
// each as a share of its price.
func CostR(l signal.Levels, exit, cost float64) float64 {
	return cost * (l.Entry + exit) / math.Abs(l.Entry-l.Stop)
}

// Point is where the sum of results after costs stood.
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

// Result is what a backtest says. Its JSON is what clients are told.
type Result struct {
	Trades     []Trade    `json:"-"` // by creation; the last ones may be open
	Statistics Statistics `json:"statistics"`
	Equity     []Point    `json:"equity"` // after each end of a trade
}

// checkEvery is after how many bars Run looks whether it shall end.
const checkEvery = 256

// Run replays a strategy over bars, which are those of one asset and timeframe in
// order, with gaps filled (strategy.FillGaps). At the close of each bar the strategy
// concludes from the bars up to there, as a live run does; where it cannot, there is no
// signal. Exits are looked for from the next bar on. The error is a *signal.RunError:
// INSUFFICIENT_HISTORY where no bar allowed a signal, DATA_UNAVAILABLE for bars that
// are not possible; or that of ctx.
func Run(ctx context.Context, bars []marketdata.Bar, o Options) (Result, error) {
	series := strategy.NewSeries(o.Timeframe).WithTick(o.Tick)
	var trades []Trade
	last := error(&signal.RunError{Code: signal.InsufficientHistory, Message: "there are no bars in the time asked for"})
	free := 0 // the first bar at whose close a signal may be made
	concluded := false
	for i := range bars {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if err := series.Append(bars[i]); err != nil {
			return Result{}, &signal.RunError{Code: signal.DataUnavailable, Message: "the bars are not possible", Cause: err}
		}
		at := bars[i].CloseTime
		if i < free || at < o.From || o.To != 0 && at > o.To {
			continue
		}
		c, err := Evaluate(series, o, bars[i])
		if err != nil {
			if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code == signal.Internal {
				return Result{}, err
			}
			last = err
			continue
		}
		concluded = true
		t := Trade{Evaluation: c, Bar: i, CreatedAt: at}
		t.follow(bars, strategy.Horizon(o.Timeframe, o.Risk))
		trades = append(trades, t)
		switch {
		case o.Overlap:
		case t.Open():
			free = len(bars)
		default:
			free = t.ExitBar
		}
	}
	if !concluded {
		return Result{}, last
	}
	return summarize(trades, o.Cost), nil
}

// Evaluate returns the signal at the close of b, the newest bar of series.
func Evaluate(series *strategy.Series, o Options, b marketdata.Bar) (strategy.Evaluation, error) {
	var a strategy.Assessment
	var err error
	if o.Strategy == strategy.Sentiment {
		a, err = series.AssessSentiment(o.News, o.Risk, b.CloseTime)
	} else {
		a, err = series.Assess(o.Strategy, o.Risk)
	}
	if err != nil {
		return strategy.Evaluation{}, err
	}
	return a.Evaluate(o.Origin, b.Close)
}

// follow looks for the end of t in the bars after its own, of which it lives for
// horizon.
func (t *Trade) follow(bars []marketdata.Bar, horizon int) {
	for i := t.Bar + 1; i < len(bars) && i <= t.Bar+horizon; i++ {
		b := bars[i]
		exit, ended := strategy.ExitOnBar(t.Direction, t.Levels, b)
		if ended {
			// What the bar did beyond the level belongs to nobody.
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

// summarize counts the trades that ended.
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
			r.Equity[n-1].R = sum // several ended with the same bar
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
