package catalogue

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Standing is what is listed of an account as of a position of its log.
type Standing struct {
	Counts map[signal.AgentID]Count // those without signals may be missing
	Last   signal.Position          // of the newest creation or closing; zero without one
	Closed []signal.Location        // those that were closed last, newest first
	Open   []signal.Location        // those that were created last, newest first
}

// standingOf returns the standing of a, of which it takes the lock.
func standingOf(a *account, upTo signal.Position, notBefore int64, limit int) Standing {
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := Standing{Counts: map[signal.AgentID]Count{}}
	counts := make([]Count, len(a.pairs.list))
	next := a.rows.after(upTo.MS)
	for n := a.rows.after(notBefore); n < next; n++ {
		created, closed := a.rows.created(n), a.rows.closed(n)
		if created.Compare(upTo) > 0 {
			continue // in the same millisecond
		}
		s.Last = s.Last.Later(created)
		count := &counts[a.rows.at(n).kind.pair()]
		if closed.IsZero() || closed.Compare(upTo) > 0 {
			count.Open++
		} else {
			count.Closed++
			s.Last = s.Last.Later(closed)
		}
	}
	for i, more := range counts {
		if more == (Count{}) {
			continue
		}
		of := s.Counts[a.pairs.list[i].agent]
		s.Counts[a.pairs.list[i].agent] = Count{of.Open + more.Open, of.Closed + more.Closed}
	}
	s.Closed = newestClosed(a, func(*row) bool { return true }, signal.Position{}, upTo, notBefore, limit)
	slices.Reverse(s.Closed)
	first := a.rows.after(notBefore)
	for n := next; n > first && len(s.Open) < limit; n-- {
		if l := a.location(n - 1); l.Closed.IsZero() && l.Created.Compare(upTo) <= 0 {
			s.Open = append(s.Open, l)
		}
	}
	return s
}
