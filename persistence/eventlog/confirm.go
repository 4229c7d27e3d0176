package eventlog

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// With Options.WaitReplicas events are read from the master before replicas have them, and may
// be lost with it. What reads the log hands on only what replicas have.

// confirmRead waits until replicas have the events of a partition up to one that was read. It
// returns false if the event is not in the log of the present master, which has removed or lost
// it. ErrReplicas, ErrNotWritten: replicas are missing.
//
// The look for the event, the write and the WAIT go to one server: after a failover, events of
// the former master would otherwise be confirmed by replicas that lack them.
func (s *Store) confirmRead(ctx context.Context, ends map[int]signal.Position) (present bool, err error) {
	confirm := ""
	var unconfirmed []int
	for p, end := range ends {
		if s.confirmed[p].position().Compare(end) < 0 {
			unconfirmed = append(unconfirmed, p)
			confirm = s.ConfirmKey(p) // on a cluster all are of one partition
		}
	}
	if len(unconfirmed) == 0 {
		return true, nil
	}
	if waits, err := s.Replicas.Waits(confirm); !waits {
		return err == nil, err
	}
	found := make([]*redis.XMessageSliceCmd, len(unconfirmed))
	err = s.Replicas.Confirm(ctx, confirm, func(pipe redis.Pipeliner) {
		for i, p := range unconfirmed {
			at := ends[p].String()
			found[i] = pipe.XRangeN(ctx, s.EventsKey(p), at, at, 1)
		}
	})
	missing := errors.Is(err, redisclient.ErrReplicas)
	if err = s.Replicas.Unconfirmed(confirm, err); err != nil {
		return false, err
	}
	for i, p := range unconfirmed {
		if len(found[i].Val()) == 0 {
			return false, nil
		}
		if !missing {
			s.confirmed[p].raise(ends[p])
		}
	}
	return true, nil
}

// confirmTries is how often a page of the log is read if its end was removed before replicas had it.
const confirmTries = 3

// readConfirmed reads a page of the log and waits until replicas have it.
func (s *Store) readConfirmed(ctx context.Context, p int, start string, count int) ([]redisclient.Entry, error) {
	for range confirmTries {
		entries, err := s.ReadRange(ctx, s.EventsKey(p), start, "+", count)
		if err != nil || len(entries) == 0 || s.Replicas.Want == 0 {
			return entries, err
		}
		present, err := s.confirmRead(ctx, map[int]signal.Position{p: entries[len(entries)-1].Position})
		if present || err != nil {
			return entries, err
		}
	}
	return nil, errors.New("the log's end was removed while replicas were waited for")
}

// withheld reports whether err is why events must not be handed on yet.
func withheld(err error) bool {
	return errors.Is(err, redisclient.ErrReplicas) || errors.Is(err, redisclient.ErrNotWritten)
}

// upTo returns the entries up to end.
func upTo(entries []redisclient.Entry, end signal.Position) []redisclient.Entry {
	n := slices.IndexFunc(entries, func(e redisclient.Entry) bool { return end.Compare(e.Position) < 0 })
	if n < 0 {
		return entries
	}
	return entries[:n]
}
