package backup

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// errTrimmed reports that events were removed before they were read, or lost with a master of Redis.
var errTrimmed = contentError{errors.New("events were removed from the log while open signals were read: repeat the backup")}

// maxCuts is how often the cut of a partition is moved at most. A signal that changes twice in the time of two commands
// moves it once.
const maxCuts = 1000

// openSignals are the open signals of a partition. Their hash is read in pieces, between which it changes. Each
// change has an event, whose position the hash stores, so the log has what has to be read again.
type openSignals struct {
	logs   *eventlog.Store
	p      int
	values map[string]string // by field of the hash
	// Signals without a later event have their present values.
	asOf  signal.Position
	added int64 // events of the log up to asOf
}

// readOpen reads all open signals of partition p, by commands that each take Redis about a millisecond.
func readOpen(ctx context.Context, logs *eventlog.Store, p int) (*openSignals, error) {
	info, err := logs.ReadInfo(ctx, logs.EventsKey(p))
	if err != nil {
		return nil, err
	}
	o := &openSignals{logs: logs, p: p, values: map[string]string{}, asOf: info.Generated, added: info.Added}
	return o, logs.EachOpen(ctx, p, func(field, value []byte) error {
		o.values[string(field)] = string(value)
		return nil
	})
}

// advance reads again what has changed up to the end of c, and reports whether the values are those of that moment.
// They are not if a signal that has changed since the last call has changed once more after c.
func (o *openSignals) advance(ctx context.Context, c *cut) (exact bool, err error) {
	changed, err := o.changed(ctx, c.last())
	if err != nil {
		return false, err
	}
	if c.events.Length < c.events.Added-o.added || c.last().Compare(o.asOf) < 0 {
		return false, errTrimmed
	}
	exact = true
	for fields := range slices.Chunk(slices.Collect(maps.Keys(changed)), scanCount) {
		values, err := o.logs.RDB.HMGet(ctx, o.logs.OpenKey(o.p), fields...).Result()
		if err != nil {
			return false, err
		}
		for i, field := range fields {
			value, _ := values[i].(string)
			state, d := codec.DecodeOpenState([]byte(value))
			if d.Err == nil && state.Updated == changed[field] {
				o.values[field] = value
			} else {
				exact = false
			}
		}
	}
	o.asOf, o.added = c.last(), c.events.Added
	return exact, nil
}

// changed takes what has changed after asOf out of values, and returns of what was open at the end the position of its last
// change.
func (o *openSignals) changed(ctx context.Context, end signal.Position) (map[string]signal.Position, error) {
	changed := map[string]signal.Position{}
	for at := o.asOf; at.Compare(end) < 0; {
		events, err := o.logs.ReadLog(ctx, o.p, at, scanCount)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 {
			break // the last ones were those of a deleted account
		}
		at = events[len(events)-1].Position
		for i := range events {
			e := &events[i]
			if e.Listing == nil || e.Position.Compare(end) > 0 {
				continue
			}
			field := codec.OpenField(e.Listing.ID)
			delete(o.values, field)
			delete(changed, field)
			if e.Listing.Status == signal.Open {
				changed[field] = e.Position
			}
		}
	}
	return changed, nil
}
