package backtest

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Outcome is the outcome of a signal with prices.
type Outcome struct {
	At         int64   // the closing, in milliseconds since 1970
	R          float64 // result before costs, in multiples of |Entry-Stop|
	Cost       float64 // of entry and exit together, in the same unit
	Target     float64 // the result at the target, in the same unit
	Confidence float64 // at its creation
	Minutes    int64   // how long the signal was open
	MFE, MAE   float64 // best and worst excursion in R
	Reason     signal.CloseReason
}

// Figure is a number in answers: rounded to 6 decimals, and null for NaN.
type Figure float64

// none is the Figure without a value.
var none = Figure(math.NaN())

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	v := math.Round(float64(f)*1e6) / 1e6
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	if v == 0 {
		v = 0 // avoids "-0"
	}
	return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Figure) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*f = none
		return nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	*f = Figure(v)
	return err
}

// Interval is a confidence interval of a share.
type Interval struct {
	Low  Figure `json:"low"`
	High Figure `json:"high"`
}

// MaxGroups is how many groups of signals a scorecard has at most, with statistics of each: the agents of an account may have
// thousands of strategies, each on every asset.
const MaxGroups = 5000

// Reasons counts signals by close reason.
type Reasons struct {
	TakeProfit int `json:"take_profit"`
	StopLoss   int `json:"stop_loss"`
	Expired    int `json:"expired"`
	AgentExit  int `json:"agent_exit"` // never in a backtest
}

// Add counts a closed signal.
func (r *Reasons) Add(reason signal.CloseReason) {
	switch reason {
	case signal.TakeProfit:
		r.TakeProfit++
	case signal.StopLoss:
		r.StopLoss++
	case signal.Expired:
		r.Expired++
	case signal.AgentExit:
		r.AgentExit++
	}
}

// Bucket compares forecasts of similar confidence with their outcomes.
type Bucket struct {
	From           Figure `json:"from"` // inclusive
	To             Figure `json:"to"`   // exclusive, except for 1
	Count          int    `json:"count"`
	MeanConfidence Figure `json:"mean_confidence"`
	HitRate        Figure `json:"hit_rate"`
}

// MinForRates is the number of closed signals from which texts show shares. Of fewer they show
// counts, because a share of some signals is read as a probability.
const MinForRates = 30

// buckets is the number of rows in a reliability table.
const buckets = 10

// Statistics describes outcomes. A figure is null without outcomes, or if it is
// undefined: the Brier skill if all or no signals won, the profit factor without a loss.
type Statistics struct {
	Count           int      `json:"count"`
	Wins            int      `json:"wins"` // closed in profit before costs
	HitRate         Figure   `json:"hit_rate"`
	HitRateInterval Interval `json:"hit_rate_interval"` // 95 %, Wilson
	BreakEven       Figure   `json:"break_even"`        // see Payoff
	BreakEvenNet    Figure   `json:"break_even_net"`    // after costs
	MeanR           Figure   `json:"mean_r"`
	MedianR         Figure   `json:"median_r"`
	ExpectancyR     Figure   `json:"expectancy_r"`   // mean after costs
	ProfitFactor    Figure   `json:"profit_factor"`  // gains over losses after costs
	MaxDrawdownR    Figure   `json:"max_drawdown_r"` // greatest fall of the sum after costs, 0 or more
	TotalR          Figure   `json:"total_r"`        // sum after costs
	MeanMinutes     Figure   `json:"mean_duration_minutes"`
	Reasons         Reasons  `json:"close_reasons"`
	MeanMFE         Figure   `json:"mean_mfe_r"`
	MeanMAE         Figure   `json:"mean_mae_r"`
	MeanConfidence  Figure   `json:"mean_confidence"`
	Brier           Figure   `json:"brier_score"`
	BrierSkill      Figure   `json:"brier_skill"` // against always forecasting the hit rate
	// Slope is that of the outcome on confidence by least squares: 1 is right, 0 means that
	// confidence says nothing beyond its mean. SlopeError is its standard error.
	Slope       Figure   `json:"calibration_slope"`
	SlopeError  Figure   `json:"calibration_slope_error"`
	Reliability []Bucket `json:"reliability"` // ten of them
}

// Summarize returns the statistics of outcomes. It sorts them by their ends.
func Summarize(outcomes []Outcome) Statistics {
	byEnd := func(a, b Outcome) int { return cmp.Compare(a.At, b.At) }
	if !slices.IsSortedFunc(outcomes, byEnd) {
		slices.SortStableFunc(outcomes, byEnd)
	}
	var t Tally
	for i := range outcomes {
		t.Add(&outcomes[i])
	}
	return t.Statistics()
}

// Payoff accumulates what outcomes gain and lose before costs, in R. The zero value is empty.
type Payoff struct {
	Count, Wins          int
	Gains, Losses, Costs float64 // 0 or more
	Targets              float64 // what they would have gained at their targets
}

// Add adds an outcome.
func (p *Payoff) Add(o *Outcome) {
	p.Count++
	p.Costs += o.Cost
	p.Targets += o.Target
	if o.R > 0 {
		p.Wins++
		p.Gains += o.R
	} else {
		p.Losses -= o.R
	}
}

// BreakEven returns the hit rates at which the mean result would be 0 before and after costs, given the mean profit and the
// mean loss. Where all have won, a loss is 1 R, as at the stop, and where none has, a profit is that of the mean target.
func (p *Payoff) BreakEven() (before, net Figure) {
	n, wins := float64(p.Count), float64(p.Wins)
	if n == 0 {
		return none, none
	}
	win, loss := p.Targets/n, 1.
	if wins > 0 {
		win = p.Gains / wins
	}
	if wins < n {
		loss = p.Losses / (n - wins)
	}
	return Figure(strategy.BreakEven(win, loss, 0)), Figure(strategy.BreakEven(win, loss, p.Costs/n))
}

// Tally accumulates outcomes. It keeps the R of each for the median. The zero value is
// empty.
type Tally struct {
	payoff                   Payoff
	rs                       []float64
	net, gains, losses       float64 // after costs
	peak, drawdown           float64
	minutes, mfe, mae        float64
	confidence, squaredError float64
	squares, products        float64 // of confidence, and of confidence and success
	reasons                  Reasons
	buckets                  [buckets]struct {
		count, wins int
		confidence  float64
	}
}

// Add adds an outcome that did not end before the previous one.
func (t *Tally) Add(o *Outcome) {
	won := 0
	if o.R > 0 {
		won = 1
	}
	net := o.R - o.Cost
	t.payoff.Add(o)
	t.rs = append(t.rs, o.R)
	t.net += net
	if net > 0 {
		t.gains += net
	} else {
		t.losses -= net
	}
	t.peak = max(t.peak, t.net)
	t.drawdown = max(t.drawdown, t.peak-t.net)
	t.minutes += float64(o.Minutes)
	t.mfe += o.MFE
	t.mae += o.MAE
	t.confidence += o.Confidence
	miss := o.Confidence - float64(won)
	t.squaredError += miss * miss
	t.squares += o.Confidence * o.Confidence
	t.products += o.Confidence * float64(won)
	t.reasons.Add(o.Reason)
	b := &t.buckets[max(0, min(buckets-1, int(o.Confidence*buckets)))]
	b.count++
	b.wins += won
	b.confidence += o.Confidence
}

// Statistics returns the statistics of the outcomes added so far.
func (t *Tally) Statistics() Statistics {
	p := &t.payoff
	n := float64(p.Count)
	mean := func(sum float64) Figure { return Figure(sum / n) } // NaN without any
	s := Statistics{
		Count: p.Count, Wins: p.Wins, HitRate: mean(float64(p.Wins)), HitRateInterval: Wilson(p.Wins, p.Count),
		MeanR: mean(p.Gains - p.Losses), MedianR: median(t.rs), ExpectancyR: mean(t.net), ProfitFactor: none,
		MaxDrawdownR: Figure(t.drawdown), TotalR: Figure(t.net), MeanMinutes: mean(t.minutes), Reasons: t.reasons,
		MeanMFE: mean(t.mfe), MeanMAE: mean(t.mae), MeanConfidence: mean(t.confidence),
		Brier: mean(t.squaredError), BrierSkill: none, Slope: none, SlopeError: none, Reliability: make([]Bucket, buckets),
	}
	s.BreakEven, s.BreakEvenNet = p.BreakEven()
	if t.losses > 0 {
		s.ProfitFactor = Figure(t.gains / t.losses)
	}
	if p.Wins > 0 && p.Wins < p.Count {
		base := float64(p.Wins) / n
		s.BrierSkill = 1 - s.Brier/Figure(base*(1-base))
		s.Slope, s.SlopeError = t.slope()
	}
	for i := range t.buckets {
		b, n := &t.buckets[i], float64(t.buckets[i].count)
		s.Reliability[i] = Bucket{From: Figure(i) / buckets, To: Figure(i+1) / buckets, Count: b.count,
			MeanConfidence: Figure(b.confidence / n), HitRate: Figure(float64(b.wins) / n)}
	}
	return s
}

// slope returns the slope of success on confidence by least squares and its standard error;
// none if too few signals, or all the same confidence, leave it undefined.
func (t *Tally) slope() (slope, deviation Figure) {
	n, wins := float64(t.payoff.Count), float64(t.payoff.Wins)
	variance := t.squares - t.confidence*t.confidence/n
	if n < 3 || variance < 1e-9*t.squares {
		return none, none
	}
	covariance := t.products - t.confidence*wins/n
	b := covariance / variance
	rest := max(0, wins-wins*wins/n-b*covariance) // the sum of squares that is left
	return Figure(b), Figure(math.Sqrt(rest / (n - 2) / variance))
}

// z95 is the two-sided 95 % quantile of the normal distribution.
const z95 = 1.959963984540054

// Wilson returns the 95 % Wilson interval of the share of wins in count.
func Wilson(wins, count int) Interval {
	if count == 0 {
		return Interval{none, none}
	}
	n := float64(count)
	p := float64(wins) / n
	const z2 = z95 * z95
	centre := (p + z2/(2*n)) / (1 + z2/n)
	half := z95 * math.Sqrt(p*(1-p)/n+z2/(4*n*n)) / (1 + z2/n)
	return Interval{Figure(max(0, centre-half)), Figure(min(1, centre+half))}
}

// median returns the median of rs, which it sorts.
func median(rs []float64) Figure {
	if len(rs) == 0 {
		return none
	}
	slices.Sort(rs)
	middle := len(rs) / 2
	if len(rs)%2 == 1 {
		return Figure(rs[middle])
	}
	return Figure((rs[middle-1] + rs[middle]) / 2)
}
