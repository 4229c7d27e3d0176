package strategy

import (
	"fmt"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Series holds the closed bars of one asset and timeframe with their features, scores and
// outcomes. It keeps the newest 1,000 bars and up to 250 more. It may be used from
// several goroutines.
type Series struct {
	mu      sync.Mutex
	bars    scoredBars
	entries entries
	cached  [len(technicals)][3]result
	reaches map[reachKey]Base // results of BaseAt, valid until the next bar
	news    newsMemory
	terse   bool // see Terse
}

// result is a result of Assess, valid until the next bar.
type result struct {
	known      bool
	assessment Assessment
	err        error
}

// NewSeries returns an empty series.
func NewSeries(tf signal.Timeframe) *Series {
	s := &Series{bars: scoredBars{tf: tf, state: newIndicators(), before: newIndicators()}, reaches: make(map[reachKey]Base)}
	s.entries.scoredBars = &s.bars
	return s.InPool(NewPool(MaxOutcomes), "", nil)
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
	s.entries.inPool(p, asset, found)
	return s
}

// Resolve reports the outcomes of all entries that have ended, as an assessment does.
func (s *Series) Resolve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries.resolve()
}

// WithTick sets the asset's tick size and returns s. Entries are then replayed with the
// minimum distance of levels that the tick demands. It panics once there are bars.
func (s *Series) WithTick(tick float64) *Series {
	if s.Len() > 0 {
		panic("strategy: tick size changed after the first bar")
	}
	if tick > 0 && finite(tick) {
		s.entries.tick = tick
	}
	return s
}

// AllowJumps lets bars open any distance from the close before and returns s.
func (s *Series) AllowJumps() *Series {
	s.bars.jumps = true
	return s
}

// Terse leaves out of assessments what only Metadata and Reasoning need, and returns s.
func (s *Series) Terse() *Series {
	s.terse = true
	return s
}

// Len returns the number of bars in the series.
func (s *Series) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bars.bars)
}

// Last returns the newest bar; the zero Bar for an empty series.
func (s *Series) Last() marketdata.Bar {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bars.last.Bar
}

// Features returns the indicators at the newest bar. It returns false during the warm-up.
func (s *Series) Features() (Features, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bars.last, s.bars.last.ready
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
	from, joined := s.bars.join(bars)
	if !joined {
		s.bars.reset()
		s.entries.reset()
		s.forget()
	}
	for _, b := range bars[from:] {
		if err := s.append(b); err != nil {
			return fmt.Errorf("append bar %d: %w", b.OpenTime, err)
		}
	}
	return nil
}

func (s *Series) append(b marketdata.Bar) error {
	replaced, err := s.bars.append(b)
	switch {
	case err != nil:
		return err
	case replaced:
		s.entries.retract()
	case s.bars.full():
		s.entries.resolve()
		s.bars.trim()
		s.entries.trim()
	}
	s.bars.update()
	s.forget()
	return nil
}

// forget clears what was cached for the last bar.
func (s *Series) forget() {
	s.entries.records = [3]*record{}
	for t := range s.cached {
		for r := range s.cached[t] {
			s.cached[t][r].known = false
		}
	}
	clear(s.reaches)
	s.news.forgetScores()
}

// Recall makes the outcomes of the asset that the pool has from before bars, which will be
// appended, count from their end, even if they were stored later. So they did in live runs,
// which had earlier bars, too.
func (s *Series) Recall(bars []marketdata.Bar) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries.recall(bars)
}
