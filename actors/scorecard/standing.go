package scorecard

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// MaxPoints is how many points the curve of a Standing has at most.
const MaxPoints = 160

// Standing is how the closed signals with prices of an account did, as of a position of its log.
type Standing struct {
	All    backtest.Statistics
	Agents map[signal.AgentID]backtest.Statistics // of the agents that were asked for
	Rest   backtest.Statistics                    // of all others together
	Curve  []Point                                // of the sums, oldest first; empty without signals
	Recorded
}

// Point has the sums of results up to a closing, before and after costs.
type Point struct {
	At      time.Time
	R, RNet float64
}

func standingOf(a *account, upTo int64, agents []signal.AgentID) Standing {
	var all, rest backtest.Tally
	of := map[signal.AgentID]*backtest.Tally{}
	for _, id := range agents {
		of[id] = &backtest.Tally{}
	}
	count := 0
	for i := range a.closed {
		if a.closed[i].at <= upTo {
			count++
		}
	}
	var s Standing
	var sums Point
	n, points := 0, min(count, MaxPoints)
	for i := range a.closed { // by their end
		e := &a.closed[i]
		if e.at > upTo {
			continue
		}
		all.Add(&e.Outcome)
		s.add(e)
		if t := of[a.groups[e.group].agent]; t != nil {
			t.Add(&e.Outcome)
		} else {
			rest.Add(&e.Outcome)
		}
		sums = Point{time.UnixMilli(e.At).UTC(), sums.R + e.R, sums.RNet + e.R - e.Cost}
		if n++; n*points/count > len(s.Curve) {
			s.Curve = append(s.Curve, sums)
		}
	}
	s.All, s.Rest, s.Agents = all.Statistics(), rest.Statistics(), map[signal.AgentID]backtest.Statistics{}
	for id, t := range of {
		s.Agents[id] = t.Statistics()
	}
	return s
}

// packed returns a position in 64 bits, in the same order as long as no millisecond has a million entries.
func packed(p signal.Position) int64 {
	const bits = 20
	return p.MS<<bits | min(p.Seq, 1<<bits-1)
}
