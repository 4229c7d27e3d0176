package strategy

import (
	"fmt"
	"math"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Sizes of a series in bars.
const (
	window    = 1000 // what an assessment looks at
	warmUp    = 120  // the oldest of them, and the first of the series: no scores
	minUsable = 300
	slack     = 250 // how many more are kept before the oldest are dropped at once
)

// reading is what is kept of a past bar's features.
type reading struct {
	scored    bool
	belowMean bool // close below EMA26, which decides where a score is 0
	atr       float64
	scores    [len(technicals)]float64
}

// Series is the closed bars of one asset and timeframe with their features,
// scores and outcomes. It keeps the newest 1,000 bars and up to 250 more. It may
// be used from several goroutines.
type Series struct {
	tf   signal.Timeframe
	tick float64 // 0: not known

	mu      sync.Mutex
	seen    int              // bars since the series began
	bars    []marketdata.Bar // newest last
	returns []float64        // log return of each of bars
	past    []reading        // of each of bars

	state, before indicators // after the last bar, and after the one before it
	last          Features

	outcomes [3][]outcome // by risk; the j-th belongs to bars[j]
	records  [3]*record   // by risk; nil: not counted since the last bar
	cached   [len(technicals)][3]*result
	scratch  []setup
	news     newsMemory
}

// result is an answer of Assess that holds until the next bar.
type result struct {
	assessment Assessment
	err        error
}

// NewSeries returns an empty series.
func NewSeries(tf signal.Timeframe) *Series {
	return &Series{tf: tf, state: newIndicators(), before: newIndicators()}
}

// WithTick tells the asset's tick size before the first Append and returns s.
// Past entries are then replayed with the least distance of levels that the tick
// demands. It panics once there are bars.
func (s *Series) WithTick(tick float64) *Series {
	if s.Len() > 0 {
		panic("strategy: tick size changed after the first bar")
	}
	if tick > 0 && finite(tick) {
		s.tick = tick
	}
	return s
}

// Len returns how many bars the series holds.
func (s *Series) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bars)
}

// Last returns the newest bar; the zero Bar if there is none.
func (s *Series) Last() marketdata.Bar {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Bar
}

// Features returns the indicators at the newest bar, and whether it is past the
// warm-up.
func (s *Series) Features() (Features, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.last.ready
}

// Append adds a closed bar. One with the last bar's open time replaces it. The
// caller has filled gaps inside sessions (FillGaps). ErrBadBar and ErrOldBar
// leave the series as it was.
func (s *Series) Append(b marketdata.Bar) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(b)
}

// Sync brings the series up to date with bars, the history of its asset, oldest
// first. Bars that it has are skipped, and a history that ends before its own
// changes nothing, so that callers may come with theirs in any order. Where the
// newest bar of the series is not among bars, the two cannot be joined and the
// series begins anew.
func (s *Series) Sync(bars []marketdata.Bar) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bars[s.join(bars):] {
		if err := s.append(b); err != nil {
			return fmt.Errorf("append bar %d: %w", b.OpenTime, err)
		}
	}
	return nil
}

// join returns the index of the first of bars that the series lacks. It empties
// the series if bars do not follow on it.
func (s *Series) join(bars []marketdata.Bar) int {
	last := s.last.Bar
	if len(s.bars) == 0 {
		return 0
	}
	if len(bars) == 0 || bars[len(bars)-1].OpenTime < last.OpenTime {
		return len(bars)
	}
	for i := len(bars) - 1; i >= 0; i-- {
		switch b := bars[i]; {
		case b == last:
			return i + 1
		case b.OpenTime == last.OpenTime || i == 0 && b.OpenTime == last.CloseTime:
			return i
		case b.OpenTime < last.OpenTime:
			s.reset()
			return 0
		}
	}
	s.reset()
	return 0
}

// reset forgets all bars.
func (s *Series) reset() {
	s.seen, s.bars, s.returns, s.past = 0, s.bars[:0], s.returns[:0], s.past[:0]
	s.state, s.before, s.last = newIndicators(), newIndicators(), Features{}
	for i := range s.outcomes {
		s.outcomes[i] = s.outcomes[i][:0]
	}
	s.forget()
}

func (s *Series) append(b marketdata.Bar) error {
	n := len(s.bars)
	bars, err := AppendBar(s.bars, b)
	if err != nil {
		return err
	}
	s.bars = bars
	if len(bars) == n { // the last one was replaced
		s.state = s.before
		s.returns, s.past = s.returns[:n-1], s.past[:n-1]
		for i, risk := range signal.RiskLevels {
			// Those that ended with the replaced bar have to be resolved again.
			ended := max(0, n-1-Horizon(s.tf, risk))
			s.outcomes[i] = s.outcomes[i][:min(ended, len(s.outcomes[i]))]
		}
	} else {
		s.seen++
		s.trim()
	}
	s.update()
	return nil
}

// trim drops the oldest bars once enough have gathered.
func (s *Series) trim() {
	if len(s.bars) < window+slack {
		return
	}
	s.bars = dropFirst(s.bars, slack)
	s.returns = dropFirst(s.returns, slack)
	s.past = dropFirst(s.past, slack)
	for i := range s.outcomes {
		s.outcomes[i] = dropFirst(s.outcomes[i], slack)
	}
}

// dropFirst moves what follows the first n elements of xs to its front.
func dropFirst[T any](xs []T, n int) []T {
	return xs[:copy(xs, xs[min(n, len(xs)):])]
}

// update computes what belongs to the newest bar.
func (s *Series) update() {
	n := len(s.bars)
	b := s.bars[n-1]
	s.before = s.state
	var previous *marketdata.Bar
	logReturn := 0.0
	if n > 1 {
		previous = &s.bars[n-2]
		logReturn = math.Log(b.Close / previous.Close)
	}
	s.state.add(previous, b)
	s.returns = append(s.returns, logReturn)
	s.last = s.state.features(s.bars, s.returns, s.seen)

	r := reading{atr: s.last.ATR14, belowMean: b.Close < s.last.EMA26, scored: s.last.ready && s.last.hasMovement}
	if r.scored {
		for i, t := range technicals {
			r.scores[i] = t.score(&s.last)
		}
	}
	s.past = append(s.past, r)
	s.forget()
}

// forget drops what was cached for the last bar.
func (s *Series) forget() {
	s.records = [3]*record{}
	s.cached = [len(technicals)][3]*result{}
	s.news.forgetScores()
}

// scoredFrom returns the index in bars of the oldest one whose score may count.
// Those of the series' own warm-up have none.
func (s *Series) scoredFrom() int { return max(0, len(s.bars)-(window-warmUp)) }
