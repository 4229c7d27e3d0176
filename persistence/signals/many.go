package signals

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// SignalsAt returns the signals at locations with their current state, in the same order. It is
// SignalByID for many signals in one round trip. Those that no longer exist are left out;
// unreadable ones are logged and left out.
func (s *Records) SignalsAt(
	ctx context.Context, account signal.AccountID, at []signal.Location,
) ([]*signal.Signal, error) {
	if len(at) == 0 {
		return nil, nil
	}
	p := s.Partition(account)
	read := s.readMany(ctx, p, at)
	if err := redisclient.Execute(ctx, read.pipe); err != nil {
		return nil, redisclient.Failed(err, "read signals of partition %d", p)
	}
	list := make([]*signal.Signal, 0, len(at))
	unclosed := map[signal.SignalID]*signal.Signal{}
	var bad unreadable
	for i := range at {
		record, err := read.signal(i, at[i], account, unclosed)
		if err != nil {
			bad.add(err)
		} else if record != nil {
			list = append(list, record)
		}
	}
	s.logUnreadable(p, bad.n, bad.first)
	if len(unclosed) == 0 {
		return list, nil
	}
	if err := s.closeRecently(ctx, p, unclosed); err != nil {
		return nil, err
	}
	kept := list[:0]
	for _, record := range list {
		if unclosed[record.ID] == nil { // those left were erased meanwhile
			kept = append(kept, record)
		}
	}
	return kept, nil
}

// manyRead is one round trip for the records of many signals.
type manyRead struct {
	pipe            redis.Pipeliner
	created, closed []*redis.XMessageSliceCmd // by location; closed is nil where that is open
	open            *redis.SliceCmd           // nil without open locations
	openAt          []int                     // by location: its index in open
}

func (s *Records) readMany(ctx context.Context, p int, at []signal.Location) *manyRead {
	r := &manyRead{
		pipe:    s.RDB.Pipeline(),
		created: make([]*redis.XMessageSliceCmd, len(at)),
		closed:  make([]*redis.XMessageSliceCmd, len(at)),
		openAt:  make([]int, len(at)),
	}
	entry := func(at signal.Position) *redis.XMessageSliceCmd {
		return r.pipe.XRangeN(ctx, s.SignalsKey(p), at.String(), at.String(), 1)
	}
	var fields []string
	for i, l := range at {
		if r.created[i] = entry(l.Created); l.Closed.IsZero() {
			r.openAt[i] = len(fields)
			fields = append(fields, codec.OpenField(l.ID))
		} else {
			r.closed[i] = entry(l.Closed)
		}
	}
	if len(fields) > 0 {
		r.open = r.pipe.HMGet(ctx, s.OpenKey(p), fields...)
	}
	return r
}

// signal returns the signal at the i-th location, or nil if it no longer exists. A signal that is
// neither open nor closed where the catalogue has it is added to unclosed.
func (r *manyRead) signal(
	i int, at signal.Location, account signal.AccountID, unclosed map[signal.SignalID]*signal.Signal,
) (*signal.Signal, error) {
	e, ok := entryOf(r.created[i], at.Created)
	if !ok {
		return nil, nil
	}
	record, err := codec.DecodeRecord(e.Position, e.Header, e.Body)
	if err != nil {
		return nil, err
	}
	if record.ID != at.ID || record.Account != account {
		return nil, nil
	}
	if r.closed[i] != nil {
		if e, ok = entryOf(r.closed[i], at.Closed); !ok {
			return nil, nil
		}
		return closeRecord(record, &e)
	}
	value, ok := r.open.Val()[r.openAt[i]].(string)
	if !ok {
		unclosed[record.ID] = record
		return record, nil
	}
	state, d := codec.DecodeOpenState([]byte(value))
	if d.Err != nil {
		return nil, fmt.Errorf("decode open signal %s: %w", at.ID, d.Err)
	}
	state.Apply(record)
	if codec.HasExit(d) {
		open, _, err := codec.DecodeOpen([]byte(codec.OpenField(at.ID)), []byte(value))
		if err != nil {
			return nil, err
		}
		record.ExitRequested = open.ExitRequested
	}
	return record, nil
}

// entryOf returns the only entry of a reply, or false if there is none.
func entryOf(reply *redis.XMessageSliceCmd, at signal.Position) (redisclient.Entry, bool) {
	entries := reply.Val()
	if len(entries) == 0 {
		return redisclient.Entry{}, false
	}
	field := func(name string) []byte {
		text, _ := entries[0].Values[name].(string)
		return []byte(text)
	}
	return redisclient.Entry{Position: at, Header: field("h"), Body: field("m")}, true
}
