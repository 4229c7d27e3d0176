package dashboard

import "time"

// passInterval is a minimum time from the start of one pass to the start of the next.
// A flusher changes to the next longer interval when it spends more than the share
// above of its time in passes, and to the next shorter one under the share below: the
// busier it is, the more it gains from larger batches. Batches lower the share itself, so
// below lies well under the share at which the interval was entered.
type passInterval struct {
	min          time.Duration
	above, below float64
}

var passIntervals = [...]passInterval{
	{min: 0, above: .5},
	{min: 5 * time.Millisecond, above: .8, below: .2},
	{min: 10 * time.Millisecond, above: 1, below: .4},
}

// useWindow is the minimum time over which use is measured.
const useWindow = 100 * time.Millisecond

// pacing measures which share of its time a flusher works, and chooses the interval of
// its passes from it. Times are those of Hub.clock.
type pacing struct {
	level int           // index of passIntervals
	since int64         // start of the measurement
	busy  time.Duration // time in passes since then
}

// worked records a pass and returns when the next one may start.
func (p *pacing) worked(from, to int64) int64 {
	p.busy += time.Duration(to - from)
	if took := time.Duration(to - p.since); took >= useWindow {
		p.level = nextLevel(p.level, float64(p.busy)/float64(took))
		p.since, p.busy = to, 0
	}
	return from + int64(passIntervals[p.level].min)
}

// nextLevel returns the level that follows level if the share use of the time was spent
// in passes.
func nextLevel(level int, use float64) int {
	switch d := passIntervals[level]; {
	case use > d.above:
		return level + 1
	case use < d.below:
		return level - 1
	}
	return level
}
