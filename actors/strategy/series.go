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
	window    = 1000 // the bars that an assessment looks at
	warmUp    = 120  // the oldest bars of the window and of the series, which have no scores
	minUsable = 300
	slack     = 250 // the number of older bars kept until they are dropped at once
)

// maxJump is the distance in ATR14 from the close before within which a bar must open. A
// greater one is no move of the market but, say, a split.
const maxJump = 20

// reading holds the features of an earlier bar that are kept.
type reading struct {
	scored    bool
	belowMean bool // close below EMA26, which decides the direction if a score is 0
	atr       float64
	jump      float64 // how far it opened from the close before in ATR14 of that, if too far; else 0
	scores    [len(technicals)]float64
}

// Series holds the closed bars of one asset and timeframe with their features, scores and
// outcomes. It keeps the newest 1,000 bars and up to 250 more. It may be used from
// several goroutines.
type Series struct {
	tf   signal.Timeframe
	tick float64 // 0: unknown

	mu      sync.Mutex
	seen    int              // bars since the series began
	bars    []marketdata.Bar // newest last
	returns []float64        // log return of each bar
	history []reading        // one for each bar

	state, before indicators // after the last bar, and after its predecessor
	last          Features

	outcomes [3][]outcome // by risk level; the j-th belongs to bars[j]
	records  [3]*record   // by risk level; nil: not computed for the last bar
	cached   [len(technicals)][3]*result
	view     view
	found    func(Outcome)
	pooled   int  // the index of the first bar whose outcome is not in the pool
	jumps    bool // bars may open any distance from the close before
	news     newsMemory
}

// result is a result of Assess, valid until the next bar.
type result struct {
	assessment Assessment
	err        error
}

// NewSeries returns an empty series.
func NewSeries(tf signal.Timeframe) *Series {
	return (&Series{tf: tf, state: newIndicators(), before: newIndicators()}).InPool(NewPool(MaxOutcomes), "", nil)
}

// InPool makes s estimate from the outcomes of a pool, where its own ones are those of
// asset, and returns s. s adds its outcomes to the pool, unless found is not nil: then the
// pool is filled from elsewhere, found is called with each new outcome of s, while s is
// locked, and the outcome counts until the pool has it. Without InPool the series has a
// pool of its own. It panics once there are bars.
func (s *Series) InPool(p *Pool, asset string, found func(Outcome)) *Series {
	if s.Len() > 0 {
		panic("strategy: pool changed after the first bar")
	}
	s.view, s.found = view{pool: p, own: asset}, func(o Outcome) { p.Add(asset, o) }
	if found != nil {
		s.found = func(o Outcome) {
			s.view.recent = append(s.view.recent, o)
			found(o)
		}
	}
	return s
}

// Resolve reports the outcomes of all entries that have ended, as an assessment does.
func (s *Series) Resolve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolve()
}

// WithTick sets the asset's tick size and returns s. Entries are then replayed with the
// minimum distance of levels that the tick demands. It panics once there are bars.
func (s *Series) WithTick(tick float64) *Series {
	if s.Len() > 0 {
		panic("strategy: tick size changed after the first bar")
	}
	if tick > 0 && finite(tick) {
		s.tick = tick
	}
	return s
}

// AllowJumps lets bars open any distance from the close before and returns s.
func (s *Series) AllowJumps() *Series {
	s.jumps = true
	return s
}

// Len returns the number of bars in the series.
func (s *Series) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bars)
}

// Last returns the newest bar; the zero Bar for an empty series.
func (s *Series) Last() marketdata.Bar {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Bar
}

// Features returns the indicators at the newest bar. It returns false during the warm-up.
func (s *Series) Features() (Features, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.last.ready
}

// Append adds a closed bar. A bar with the open time of the last one replaces it. The
// caller must have filled gaps inside sessions (FillGaps). ErrBadBar and ErrOldBar leave
// the series unchanged.
func (s *Series) Append(b marketdata.Bar) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(b)
}

// Sync brings the series up to date with bars, the history of its asset, oldest first.
// Bars that it has are skipped, and a shorter history changes nothing, so that callers
// may arrive in any order. If the newest bar of the series is not among bars, the two
// cannot be joined and the series is rebuilt from bars.
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

// join returns the index of the first of bars that the series lacks. It empties the
// series if bars do not continue it.
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

// reset removes all bars.
func (s *Series) reset() {
	s.seen, s.bars, s.returns, s.history = 0, s.bars[:0], s.returns[:0], s.history[:0]
	s.state, s.before, s.last = newIndicators(), newIndicators(), Features{}
	for i := range s.outcomes {
		s.outcomes[i] = s.outcomes[i][:0]
	}
	s.pooled, s.view = 0, view{pool: s.view.pool, own: s.view.own}
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
		s.returns, s.history = s.returns[:n-1], s.history[:n-1]
		for i, risk := range signal.RiskLevels {
			// Outcomes that depend on the replaced bar have to be resolved again.
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

// trim drops the oldest bars at once when slack of them have accumulated.
func (s *Series) trim() {
	if len(s.bars) < window+slack {
		return
	}
	s.resolve()
	s.bars = dropFirst(s.bars, slack)
	s.returns = dropFirst(s.returns, slack)
	s.history = dropFirst(s.history, slack)
	for i := range s.outcomes {
		s.outcomes[i] = dropFirst(s.outcomes[i], slack)
	}
	s.pooled = max(0, s.pooled-slack)
}

// dropFirst removes the first n elements of xs in place.
func dropFirst[T any](xs []T, n int) []T {
	return xs[:copy(xs, xs[min(n, len(xs)):])]
}

// update computes the features and scores of the newest bar.
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
	if previous != nil && s.history[n-2].atr > 0 && !s.jumps {
		if jump := math.Abs(b.Open-previous.Close) / s.history[n-2].atr; jump > maxJump {
			r.jump = jump
		}
	}
	s.history = append(s.history, r)
	s.forget()
}

// forget clears what was cached for the last bar.
func (s *Series) forget() {
	s.records = [3]*record{}
	s.cached = [len(technicals)][3]*result{}
	s.news.forgetScores()
}

// scoredFrom returns the index of the oldest bar whose score may count. Bars of the
// series' own warm-up have no score.
func (s *Series) scoredFrom() int { return max(0, len(s.bars)-(window-warmUp)) }
