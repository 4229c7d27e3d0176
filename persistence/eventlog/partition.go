package eventlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// tailPartition reads on in the log of one partition, and hands the events on.
type tailPartition struct {
	number      int
	store       *Store
	subscribers *subscribers
	log         *slog.Logger
	count       int // TailOptions.Count
	follow      *following

	reading sync.Mutex // held while subscribers are called; guards the next fields
	cursor  signal.Position
	suspect bool      // entries may have been removed unread since the last inspection
	readAt  time.Time // of the last read, by the wall clock, which goes on while the machine is suspended
	recent  recent
}

// at returns the position after which to read.
func (t *tailPartition) at() signal.Position {
	t.reading.Lock()
	defer t.reading.Unlock()
	return t.cursor
}

// doubt records that entries may be removed before they are read.
func (t *tailPartition) doubt() {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.suspect = true
}

// attach sets the cursor, if the partition is not attached yet, to the end of its log.
func (t *tailPartition) attach(ctx context.Context) error {
	t.reading.Lock()
	defer t.reading.Unlock()
	if t.follow.attached {
		return nil
	}
	end, err := t.store.LastEvent(ctx, t.number)
	if err != nil {
		return err
	}
	if end.IsZero() { // perhaps it had entries before
		info, err := t.store.ReadInfo(ctx, t.store.EventsKey(t.number))
		if err != nil {
			return err
		}
		if info.Length == 0 {
			end = info.Generated
		}
	}
	t.cursor, t.suspect, t.readAt = end, false, time.Now().Round(0)
	t.recent = recent{base: end}
	t.follow.attach()
	t.follow.pass(end)
	return nil
}

// detach ends the reading, unless there is a reason for it by now. To subscribers
// it is a gap, so that nothing of the partition passes for current when it is attached again.
func (t *tailPartition) detach() {
	t.reading.Lock()
	defer t.reading.Unlock()
	if !t.follow.detach() {
		return
	}
	t.recent = recent{}
	t.subscribers.notify(t.number, t.subscribers.gaps)
}

// pausedAfter is how long after the last read the process is taken to have been paused: its log may have been
// trimmed meanwhile, and the next read need not fail.
const pausedAfter = 5 * time.Second

// take hands on the entries that were read after a position, unless another read
// has moved the cursor since: then they are read again. silent is true if the read brought
// nothing of any partition.
func (t *tailPartition) take(ctx context.Context, after signal.Position, entries []redisclient.Entry, silent bool) error {
	t.reading.Lock()
	defer t.reading.Unlock()
	if !t.follow.attached || t.cursor != after {
		return nil
	}
	now := time.Now().Round(0)
	t.suspect, t.readAt = t.suspect || now.Sub(t.readAt) > pausedAfter, now
	if t.suspect || silent && t.follow.awaited() {
		rolledBack, err := t.inspect(ctx, len(entries) > 0)
		if err != nil {
			return err
		}
		if rolledBack {
			return nil // they are read again, after those that may stand before them
		}
	}
	if len(entries) > 0 {
		t.hand(entries)
		// Trimming may overtake a reader that lags, but not one at the log's end, since
		// the newest entries are never trimmed.
		t.suspect = len(entries) >= t.count
	}
	return nil
}

// hand gives events to the subscribers.
func (t *tailPartition) hand(entries []redisclient.Entry) {
	events := make([]signal.Event, 0, len(entries))
	panics.GuardEach(t.log, panics.Tail, len(entries), func(i int) {
		if e, ok := t.store.event(t.number, &entries[i]); ok {
			events = append(events, e)
		}
	}, func(i int) []any { return []any{"partition", t.number, "at", entries[i].Position.String()} })
	if len(events) > 0 && !t.subscribers.deliver(t.number, events) {
		t.subscribers.notify(t.number, t.subscribers.gaps) // a subscriber that panicked may have handled some events
	}
	t.cursor = entries[len(entries)-1].Position
	t.recent.add(entries)
	t.follow.pass(t.cursor)
}

// inspect finds out whether entries after the cursor were removed before they were read, and
// notifies the subscribers. found is true if there are entries to hand on, rolledBack if they
// must be read again.
func (t *tailPartition) inspect(ctx context.Context, found bool) (rolledBack bool, err error) {
	appended := t.store.appended[t.number].position() // first, so that Retains sees it
	retained, info, err := t.store.Retains(ctx, t.number, t.cursor)
	if err != nil {
		return false, err
	}
	lost := !retained && wentBack(info, t.cursor)
	if !lost && t.cursor.Compare(appended) < 0 {
		retained, info, err := t.store.Retains(ctx, t.number, appended)
		if err != nil {
			return false, err
		}
		lost = !retained && wentBack(info, appended)
	}
	if lost {
		return true, t.rollBack(ctx, info)
	}
	if !retained {
		t.log.Warn("events were removed before they were read", "component", "tail", "partition", t.number,
			"after", t.cursor.String())
		t.subscribers.notify(t.number, t.subscribers.gaps)
	}
	switch {
	case !info.Exists:
		t.cursor = signal.Position{}
	case info.Complete && !found && info.Last.Compare(t.cursor) <= 0:
		// Everything after the cursor was removed: no caller may wait for it.
		t.cursor = info.Generated
	}
	t.suspect = false
	if !found {
		t.follow.pass(t.cursor)
	}
	return false, nil
}

// rollBack goes back to the last event that both the tail and the log have, and notifies the
// subscribers of the loss of the others.
func (t *tailPartition) rollBack(ctx context.Context, info redisclient.StreamInfo) error {
	common := signal.Position{}
	if info.Exists {
		var err error
		if common, err = t.common(ctx, info); err != nil {
			return err
		}
	}
	t.log.Warn("Redis has lost events that it had acknowledged", "component", "tail", "partition", t.number,
		"read", t.cursor.String(), "left", common.String())
	t.store.appended[t.number].reset()
	t.store.confirmed[t.number].reset()
	t.cursor, t.suspect = common, false
	t.recent.cut(common)
	t.subscribers.notify(t.number, t.subscribers.rollbacks)
	t.subscribers.notify(t.number, t.subscribers.gaps)
	t.follow.pass(common)
	return nil
}

// common returns the position of the last event of the log that was read together with all
// before it.
func (t *tailPartition) common(ctx context.Context, info redisclient.StreamInfo) (signal.Position, error) {
	known := t.recent
	after, limit := "("+known.base.String(), len(known.positions)+1
	entries, err := t.store.ReadRange(ctx, t.store.EventsKey(t.number), after, t.cursor.String(), limit)
	if err != nil {
		return signal.Position{}, redisclient.Unavailable(err)
	}
	at := known.base
	for i := range entries {
		if !known.has(entries[i].Position) {
			break
		}
		at = entries[i].Position
	}
	if info.Complete && info.Generated.Compare(at) < 0 {
		return info.Generated, nil // before everything that the tail remembers
	}
	return at, nil
}
