package backtest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// maxJump is the distance from the close before, in ranges, within which a bar must open. A greater one is
	// no move of the market but, say, a split.
	maxJump = 20
	// rangeLength is the number of bars, or of sessions, whose mean range measures jumps.
	rangeLength = 14
	// overnight is the least time without bars that separates sessions.
	overnight = time.Hour
	// A split is seen by the ratio of open and close before, which is off by no more than nearSplit, or exactSplit
	// where nothing else confirms it. Its distance is at least minSplit ranges, and in the splitBars bars from it on
	// no close comes back over half of the way.
	nearSplit, exactSplit = 0.04, 0.01
	minSplit              = 4
	splitBars             = 5
	volumeBars            = 20 // before it
	// The volume of a split moves the other way: within a factor of sureVolume where gaps of this size occur, else to no more
	// than possibleVolume times as much, since trading multiplies when a price really halves, and volumes may be adjusted.
	sureVolume, possibleVolume = 1.6, 4
)

// splits has the ratios of prices after and before splits, and their names.
var splits = func() (all []split) {
	add := func(shares, before float64, common bool) {
		all = append(all, split{before / shares, fmt.Sprintf("%g:%g", shares, before), common},
			split{shares / before, fmt.Sprintf("%g:%g", before, shares), common})
	}
	add(4, 3, true)
	add(3, 2, true)
	for n := range 19 {
		add(float64(n+2), 1, false)
	}
	return all
}()

// split is a kind of split. Gaps as of a common one occur without splits.
type split struct {
	ratio  float64
	name   string
	common bool
}

// Jump is the distance of an open from the close of the bar before.
type Jump struct {
	At      int64   // when the bar opens, in milliseconds
	Percent float64 // of the close before
	// Ranges is the distance in mean true ranges of 14 bars, or of 14 sessions between two of them.
	Ranges float64
	Split  string // the split that it looks like, such as 2:1; empty: none

	bar int // the index of the bar
}

// MarshalJSON implements json.Marshaler.
func (j Jump) MarshalJSON() ([]byte, error) {
	b := signal.AppendTime([]byte(`{"at":`), time.UnixMilli(j.At))
	return fmt.Appendf(b, `,"percent":%.4f,"ranges":%.4f,"split":%q}`, j.Percent, j.Ranges, j.Split), nil
}

// String describes the jump.
func (j Jump) String() string {
	text := fmt.Sprintf("the bar of %s opens %+.1f %% from the close before it (%.1f mean ranges)",
		time.UnixMilli(j.At).UTC().Format(time.RFC3339), j.Percent, j.Ranges)
	if j.Split != "" {
		text += ", as after a split of " + j.Split
	}
	return text
}

// JumpError reports a bar that opens so far from the close before it that the prices are not those of one thing.
type JumpError struct{ Jump }

// Error implements error.
func (e *JumpError) Error() string { return e.String() }

// meanRange is a mean of ranges after Wilder.
type meanRange struct {
	n    int
	mean float64
}

func (m *meanRange) add(r float64) {
	m.n++
	m.mean += (r - m.mean) / float64(min(m.n, rangeLength))
}

// FindJumps returns the greatest jump of bars, nil if all bars open at the close before, and those that the market cannot have made. Bars after an outage, whose indices are in cuts, may open anywhere.
func FindJumps(bars []marketdata.Bar, tf signal.Timeframe, cuts []int) (greatest *Jump, found []Jump) {
	var ofBars, ofSessions meanRange
	var session struct{ high, low float64 }
	for i, b := range bars {
		if i == 0 {
			session.high, session.low = b.High, b.Low
			continue
		}
		before := &bars[i-1]
		unit, least := ofBars, rangeLength
		closed := tf != signal.D1 && b.OpenTime-before.CloseTime >= overnight.Milliseconds()
		if closed {
			ofSessions.add(session.high - session.low)
			session.high, session.low = before.Close, before.Close
			unit, least = ofSessions, 1
		}
		session.high, session.low = max(session.high, b.High), min(session.low, b.Low)
		ofBars.add(max(b.High, before.Close) - min(b.Low, before.Close))
		distance := math.Abs(b.Open - before.Close)
		known := 0.0
		if greatest != nil {
			known = greatest.Ranges
		}
		if unit.n < least || unit.mean <= 0 || distance <= min(known, minSplit)*unit.mean {
			continue
		}
		if _, cut := slices.BinarySearch(cuts, i); cut {
			continue
		}
		j := Jump{At: b.OpenTime, Percent: 100 * (b.Open/before.Close - 1), Ranges: distance / unit.mean, bar: i}
		if j.Ranges >= minSplit {
			j.Split = splitAt(bars, i, tf == signal.D1)
		}
		if greatest == nil || j.Ranges > greatest.Ranges {
			greatest = &j
		}
		if j.Ranges > maxJump || j.Split != "" {
			found = append(found, j)
		}
	}
	return greatest, found
}

// splitAt returns the split that the i-th bar looks like; empty if none. Volume is looked at if byVolume.
func splitAt(bars []marketdata.Bar, i int, byVolume bool) string {
	before := bars[i-1].Close
	ratio := bars[i].Open / before
	after := bars[i:min(i+splitBars, len(bars))]
	for _, s := range splits {
		off := math.Abs(ratio/s.ratio - 1)
		if off > nearSplit {
			continue
		}
		half := math.Sqrt(s.ratio)
		if slices.ContainsFunc(after, func(b marketdata.Bar) bool { return (b.Close/before < half) != (s.ratio < half) }) {
			return ""
		}
		moved := 0.0 // by which the volume is off; 0: it is not known
		if byVolume {
			moved = medianVolume(after) / medianVolume(bars[max(0, i-volumeBars):i]) * s.ratio
		}
		known := moved > 0 && !math.IsInf(moved, 0)
		switch {
		case s.common && known && (moved > sureVolume || moved < 1/sureVolume), s.common && !known && off > exactSplit:
		case !s.common && known && moved > possibleVolume:
		default:
			return s.name
		}
	}
	return ""
}

// medianVolume returns the median volume of bars.
func medianVolume(bars []marketdata.Bar) float64 {
	var v []float64
	for i := range bars {
		v = append(v, bars[i].Volume)
	}
	slices.Sort(v)
	return v[len(v)/2]
}
