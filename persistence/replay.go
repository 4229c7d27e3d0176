package persistence

import (
	"context"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// replayEntries is how many events one command reads.
const replayEntries = 1000

// retains says whether everything that was ever behind a position of an event log
// is still there, but for entries of deleted accounts. When in doubt it says no.
func (s *Store) retains(ctx context.Context, p int, after signal.Position) (bool, streamInfo, error) {
	info, err := s.readInfo(ctx, eventsKey(p))
	switch {
	case err != nil:
		return false, info, unavailable(err)
	case !info.exists:
		return after.IsZero(), info, nil
	case info.complete && info.generated.Compare(after) <= 0:
		return info.generated == after, info, nil
	case after.IsZero():
		return info.complete && info.added == info.length, info, nil
	}
	// Trimming removes the oldest entries, so while the entry itself is there, or an
	// older one, nothing behind it was trimmed.
	at := after.String()
	entries, err := s.readRange(ctx, eventsKey(p), at, at, 1)
	if err != nil {
		return false, info, unavailable(err)
	}
	if len(entries) == 1 {
		return true, info, nil
	}
	// The entry may have been deleted singly, with its account.
	return info.complete && info.maxDeleted.Compare(after) >= 0 && info.length > 0 && info.first.Compare(after) < 0, info, nil
}

// ReadLog returns the events of all accounts of a partition after a position, in
// their order, at most limit. None: the end of the log.
func (s *Store) ReadLog(ctx context.Context, p int, after signal.Position, limit int) ([]signal.Event, error) {
	events := make([]signal.Event, 0, min(limit, replayEntries))
	for len(events) < limit {
		count := min(limit-len(events), replayEntries)
		entries, err := s.readRange(ctx, eventsKey(p), "("+after.String(), "+", count)
		if err != nil {
			return nil, unavailable(err)
		}
		for i := range entries {
			if e, ok := s.event(p, &entries[i]); ok {
				events = append(events, e)
			}
		}
		if len(entries) < count {
			break
		}
		after = entries[len(entries)-1].position
	}
	return events, nil
}

// event decodes an entry of the event log. One that is not readable is logged.
func (s *Store) event(p int, e *entry) (signal.Event, bool) {
	event, err := decodeEvent(e.position, e.header, e.body)
	if err != nil {
		s.log.Error("an event is not readable", "component", "persistence", "partition", p, "err", err)
		return event, false
	}
	return event, true
}

// lastEvent returns the position of the newest event; zero if there is none.
func (s *Store) lastEvent(ctx context.Context, p int) (signal.Position, error) {
	return s.lastEventAfter(ctx, p, signal.Position{})
}

// lastEventAfter returns the position of the newest event, or after if that is not
// behind it, without reading what is at after.
func (s *Store) lastEventAfter(ctx context.Context, p int, after signal.Position) (signal.Position, error) {
	reply, err := s.raw(ctx, s.rdb, nil, "XREVRANGE", eventsKey(p), "+", "("+after.String(), "COUNT", 1)
	if err != nil {
		return after, unavailable(fmt.Errorf("ask for the end of event log %d: %w", p, err))
	}
	r := newReplyReader(reply)
	entries, err := r.entries(nil)
	if err != nil {
		return after, fmt.Errorf("ask for the end of event log %d: %w", p, err)
	}
	if len(entries) == 0 {
		return after, nil
	}
	return entries[0].position, nil
}
