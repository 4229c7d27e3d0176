package dashboard

import "time"

// passInterval is a minimum time from the start of one pass to the start of the next. A flusher
// changes to the next longer interval when it spends more than the share above of its time in
// passes, and to the next shorter one under the share below: the busier it is, the more it gains
// from larger batches. Batches lower the share itself, so below lies well under the share at which
// the interval was entered.
type passInterval struct {
	min          time.Duration
	above, below float64
}

var passIntervals = [...]passInterval{
	{min: 0, above: .5},
	{min: 5 * time.Millisecond, above: .8, below: .2},
	{min: 10 * time.Millisecond, above: 1, below: .4},
}

// An interval is worth its delay only if it gathers: if a connection gets gatherMin frames in that
// time on average, which saves over a third of the writes where frames come at random. If it gets fewer,
// the interval is entered only above busyEnter, where frames queue up anyway, and left below busyLeave.
const (
	gatherMin = 1
	busyEnter = .97
	busyLeave = .6
)

// useWindow is the minimum time over which use is measured.
const useWindow = 100 * time.Millisecond

// pacing measures which share of its time a flusher works and how many frames its connections get,
// and chooses the interval of its passes from these. Times are those of Hub.clock.
type pacing struct {
	level  int           // index of passIntervals
	since  int64         // start of the measurement
	busy   time.Duration // time in passes since then
	frames uint64        // frames written since then
}

// worked records a pass that wrote frames to some of the connections, and returns when the next one may start.
func (p *pacing) worked(from, to int64, frames uint64, connections int) int64 {
	p.busy += time.Duration(to - from)
	p.frames += frames
	if took := time.Duration(to - p.since); took >= useWindow {
		perSecond := float64(p.frames) / float64(max(connections, 1)) / took.Seconds()
		p.level = nextLevel(p.level, float64(p.busy)/float64(took), perSecond)
		p.since, p.busy, p.frames = to, 0, 0
	}
	return from + int64(passIntervals[p.level].min)
}

// nextLevel returns the level that follows level if the share use of the time was spent in passes, and a
// connection got so many frames a second.
func nextLevel(level int, use, perSecond float64) int {
	gathers := func(level int) bool { return perSecond*passIntervals[level].min.Seconds() >= gatherMin }
	switch d := passIntervals[level]; {
	case use > d.above && (use > busyEnter || gathers(level+1)):
		return level + 1
	case use < d.below, level > 0 && use < busyLeave && !gathers(level):
		return level - 1
	}
	return level
}
