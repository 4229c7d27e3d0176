package dashboard

import "time"

// distance is a least time from the beginning of one pass to that of the next, and
// the parts of its time that a flusher spends in passes above and below which the
// next longer and the next shorter distance take its place. The busier it is, the
// more is worth writing together; one that has time to spare sends at once. Writing
// together lowers the use itself, so a distance ends well below where it began.
type distance struct {
	least        time.Duration
	above, below float64
}

var distances = [...]distance{
	{least: 0, above: .5},
	{least: 5 * time.Millisecond, above: .8, below: .2},
	{least: 10 * time.Millisecond, above: 1, below: .4},
}

// useWindow is the least time over which use is measured.
const useWindow = 100 * time.Millisecond

// pacing measures how much of its time a flusher is at work, and decides from that
// how far apart its passes are. Times are those of Hub.clock.
type pacing struct {
	level int           // index of distances
	since int64         // when the measurement began
	busy  time.Duration // in passes since then
}

// worked notes a pass, and returns when the next one may begin.
func (p *pacing) worked(from, to int64) int64 {
	p.busy += time.Duration(to - from)
	if took := time.Duration(to - p.since); took >= useWindow {
		p.level = nextLevel(p.level, float64(p.busy)/float64(took))
		p.since, p.busy = to, 0
	}
	return from + int64(distances[p.level].least)
}

// nextLevel returns the level after one at which the part use of the time was spent
// in passes.
func nextLevel(level int, use float64) int {
	switch d := distances[level]; {
	case use > d.above:
		return level + 1
	case use < d.below:
		return level - 1
	}
	return level
}
