package weather

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Slope is the share of a forecast's information that the price does not reflect yet.
type Slope struct {
	// Tau is τ: the difference in confidence between a probability of 1 and one of 0 that
	// the anomaly keeps its sign.
	Tau    float64
	Fitted int // the number of closed signals that it was fitted to; 0: Tau is assumedTau
}

const (
	// assumedTau is τ while few signals have closed. It is small because nobody has
	// measured it: a certain forecast adds one point to a confidence.
	assumedTau = .02
	// tauDeviation is the deviation of the prior distribution of τ, whose mean is
	// assumedTau: 0 to 0.25 are plausible. It weighs less than 200 outcomes of as many
	// days, so that they can find a real slope. With a deviation of 0.02, even 4,000
	// outcomes of a market with τ = 0.25 would give 0.06.
	tauDeviation = .25
	// fitFrom is the number of closed signals of a commodity from which on τ is fitted.
	fitFrom = 200
	// maxTau bounds a fitted τ: a larger one could raise a confidence from break-even to
	// certainty.
	maxTau = 1
	// overlap is the weight of a day's signals, as in package strategy: of ten
	// overlapping outcomes as many count as four.
	overlap = .4
)

// outcome is the outcome of a closed signal.
type outcome struct {
	prior      float64 // of a profit, without the forecast
	likelihood float64 // at creation, that the anomaly keeps its sign
	won        bool
	bar        int64 // the daily bar in which it was made
}

// fitSlope returns the τ by which
//
//	logit(p) = logit(prior) + τ·(likelihood - 1/2)/(prior·(1 - prior))
//
// makes the outcomes most likely, 0 to maxTau: a logistic regression with one parameter,
// which to first order is that of p = prior + τ·(likelihood - 1/2). Signals of one day share
// the weight of one outcome, since they end alike. Outcomes of 90 days are few, so τ has a
// normal prior distribution, which also bounds it if the outcomes are separable.
func fitSlope(list []outcome) float64 {
	inBar := make(map[int64]float64)
	for i := range list {
		inBar[list[i].bar]++
	}
	const precision = 1 / (tauDeviation * tauDeviation) // of the prior distribution
	lo, hi, tau := 0.0, float64(maxTau), assumedTau
	for range 60 { // Newton, kept in a bracket: the gradient falls with τ
		gradient, curvature := precision*(assumedTau-tau), precision
		for i := range list {
			o := &list[i]
			x := (o.likelihood - .5) / (o.prior * (1 - o.prior))
			p := 1 / (1 + (1-o.prior)/o.prior*math.Exp(-tau*x))
			won := 0.0
			if o.won {
				won = 1
			}
			weight := overlap / inBar[o.bar]
			gradient += weight * x * (won - p)
			curvature += weight * x * x * p * (1 - p)
		}
		if gradient > 0 {
			lo = tau
		} else {
			hi = tau
		}
		next := tau + gradient/curvature
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-tau) < 1e-7 {
			break
		}
		tau = next
	}
	return math.Round(tau*1e4) / 1e4
}

// Records is the signal log. See signals.Store.
type Records interface {
	Partitions() int
	// EachWeatherEntry calls f for each creation by a weather run that states a prior, and for
	// each closing with a result, in a partition after a position. An entry is valid until f
	// returns. It returns the position up to which it has read.
	EachWeatherEntry(ctx context.Context, partition int, after signal.Position,
		f func(*signal.WeatherEntry)) (signal.Position, error)
}

const (
	// fitEvery is the pause between two fits in real time, minFitEvery the minimum in
	// compressed time.
	fitEvery    = runsEvery
	minFitEvery = time.Minute
	// settled is the age from which on all nodes read the same entries of the log.
	settled = 5 * time.Second
	// maxOutcomes is the number of newest outcomes kept per commodity: enough for a τ that
	// is right within 0.02.
	maxOutcomes = 10_000
)

// slopes fits τ to the closed weather signals of all accounts in the signal log. A fit
// includes what was closed before a fixed time, a multiple of the interval since 1970, so
// that all nodes get the same result whenever they started, without looking ahead.
type slopes struct {
	records   Records
	now       func() time.Time
	log       *slog.Logger
	every     time.Duration
	bar       time.Duration // the length of a daily bar
	retention time.Duration

	fitted atomic.Pointer[map[string]Slope] // by commodity; for missing ones τ is assumed
	ready  chan struct{}                    // closed after the first fit
	once   sync.Once

	// Touched by run only.
	upTo   []signal.Position // of each partition
	open   map[origin]closable
	closed map[string][]closable // by commodity
}

// origin is where the creation of a signal is in the signal log.
type origin struct {
	partition int
	created   signal.Position
}

// closable is a signal with its outcome, or an open one that will have one.
type closable struct {
	outcome
	origin
	commodity string
	closed    signal.Position
}

func newSlopes(o Options) *slopes {
	speed := time.Duration(max(o.Speed, 1))
	const day = 24 * time.Hour
	s := &slopes{records: o.Records, now: o.Now, log: o.Log, every: max(fitEvery/speed, minFitEvery),
		bar: day / speed, retention: cmp.Or(o.Retention, 90*day), ready: make(chan struct{}),
		open: make(map[origin]closable), closed: make(map[string][]closable)}
	s.fitted.Store(new(map[string]Slope))
	if s.records == nil {
		close(s.ready)
	} else {
		s.upTo = make([]signal.Position, s.records.Partitions())
	}
	return s
}

// of returns the slope of a commodity.
func (s *slopes) of(commodity string) Slope {
	if slope, ok := (*s.fitted.Load())[commodity]; ok {
		return slope
	}
	return Slope{Tau: assumedTau}
}

// run fits repeatedly until ctx ends.
func (s *slopes) run(ctx context.Context) {
	if s.records == nil {
		return
	}
	for ctx.Err() == nil {
		before := s.now().Add(-settled).Truncate(s.every)
		pause := before.Add(s.every + settled).Sub(s.now())
		err := panics.ErrPanicked
		panics.Guard(s.log, panics.Weather, func() {
			if err = s.read(ctx); err == nil {
				s.fit(before)
			}
		})
		if err != nil {
			s.log.Warn("closed signals are not readable", "err", err)
			pause = retryPause
		} else {
			s.once.Do(func() { close(s.ready) })
		}
		backoff.Sleep(ctx, pause)
	}
}

// read reads the entries of the log after the ones read so far.
func (s *slopes) read(ctx context.Context) error {
	for p := range s.upTo {
		upTo, err := s.records.EachWeatherEntry(ctx, p, s.upTo[p], func(e *signal.WeatherEntry) { s.take(p, e) })
		if s.upTo[p] = upTo; err != nil {
			return fmt.Errorf("read partition %d: %w", p, err)
		}
	}
	return nil
}

// take records the creation or the closing of a signal of a partition. Signals of quiet
// weather tell nothing of τ and are left out.
func (s *slopes) take(p int, e *signal.WeatherEntry) {
	if e.Created.IsZero() {
		if e.Prior > 0 && e.Prior < 1 && e.Likelihood != undecided {
			at := origin{p, e.Position}
			bar := e.Position.MS / s.bar.Milliseconds()
			s.open[at] = closable{origin: at, commodity: e.Commodity,
				outcome: outcome{prior: e.Prior, likelihood: e.Likelihood, bar: bar}}
		}
		return
	}
	at := origin{p, e.Created}
	if c, ok := s.open[at]; ok {
		delete(s.open, at)
		c.won, c.closed = e.Won, e.Position
		s.closed[c.commodity] = append(s.closed[c.commodity], c)
	}
}

// fit fits τ to the signals closed before a time.
func (s *slopes) fit(before time.Time) {
	expired := func(c *closable) bool { return !c.created.Time().After(before.Add(-s.retention)) }
	for id, c := range s.open {
		if expired(&c) {
			delete(s.open, id)
		}
	}
	fitted := make(map[string]Slope)
	for commodity, list := range s.closed {
		list = slices.DeleteFunc(list, func(c closable) bool { return expired(&c) })
		slices.SortFunc(list, func(a, b closable) int {
			return cmp.Or(a.closed.Compare(b.closed), cmp.Compare(a.partition, b.partition))
		})
		n, _ := slices.BinarySearchFunc(list, before, func(c closable, t time.Time) int { return c.closed.Time().Compare(t) })
		first := max(0, n-maxOutcomes)
		n, list = n-first, list[first:]
		s.closed[commodity] = list
		if n < fitFrom {
			continue
		}
		known := make([]outcome, n)
		for i := range known {
			known[i] = list[i].outcome
		}
		fitted[commodity] = Slope{Tau: fitSlope(known), Fitted: n}
	}
	s.fitted.Store(&fitted)
}
