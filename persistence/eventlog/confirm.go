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
	if waits, err := s.Waits(confirm); !waits {
		return err == nil, err
	}
	found := make([]*redis.XMessageSliceCmd, len(unconfirmed))
	err = s.Confirm(ctx, confirm, func(pipe redis.Pipeliner) {
		for i, p := range unconfirmed {
			at := ends[p].String()
			found[i] = pipe.XRangeN(ctx, s.EventsKey(p), at, at, 1)
		}
	})
	missing := errors.Is(err, redisclient.ErrReplicas)
	if err = s.Unconfirmed(confirm, err); err != nil {
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
		if err != nil || len(entries) == 0 || s.WaitReplicas == 0 {
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

// confirm removes from found what replicas do not have yet. It is read again: after an inspection
// if the master does not have it either. It reports whether events are withheld because replicas
// are missing.
func (t *Tail) confirm(ctx context.Context, found map[int][]redisclient.Entry) (missing bool, err error) {
	if t.store.WaitReplicas == 0 || len(found) == 0 {
		return false, nil
	}
	ends := make(map[int]signal.Position, len(found))
	for p, entries := range found {
		ends[p] = entries[len(entries)-1].Position
	}
	present, err := t.store.confirmRead(ctx, ends)
	if missing = withheld(err); err != nil && !missing {
		return false, err
	}
	for p, entries := range found {
		if missing {
			found[p] = upTo(entries, t.store.confirmed[p].position())
		} else if !present {
			t.suspect([]int{p})
			delete(found, p)
		}
	}
	return missing, nil
}

// upTo returns the entries up to end.
func upTo(entries []redisclient.Entry, end signal.Position) []redisclient.Entry {
	n := slices.IndexFunc(entries, func(e redisclient.Entry) bool { return end.Compare(e.Position) < 0 })
	if n < 0 {
		return entries
	}
	return entries[:n]
}

// hold notes whether events of partitions are withheld. While they are, nothing waits for events
// that replicas may lack.
func (t *Tail) hold(partitions []int, missing bool) {
	for _, p := range partitions {
		part := &t.partitions[p]
		part.mu.Lock()
		t.setWithheld(part, missing)
		if missing {
			confirmed := t.store.confirmed[p].position()
			part.release(func(awaited signal.Position) bool { return confirmed.Compare(awaited) < 0 })
		}
		part.mu.Unlock()
	}
}

// setWithheld notes whether events of a partition are withheld. part.mu is held.
func (t *Tail) setWithheld(part *tailPartition, is bool) {
	switch {
	case is && !part.withheld:
		t.withheld.Add(1)
	case part.withheld && !is:
		t.withheld.Add(-1)
	}
	part.withheld = is
}

// awaitReplicas returns when replicas are back, or after BlockTimeout.
func (t *Tail) awaitReplicas(ctx context.Context, partitions []int) {
	ctx, cancel := context.WithTimeout(ctx, redisclient.BlockTimeout)
	defer cancel()
	t.store.AwaitReplicas(ctx, t.store.ConfirmKey(partitions[0]))
}
