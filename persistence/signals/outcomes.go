package signals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// EachRecord calls f for each creation and closing of the account's signals in the signal log
// after a position, in order, without metadata. It returns the position up to which it has read,
// also after an error, so that a later call can continue there. A closing has ID, Account,
// Confidence, MFE, MAE, Sequence and Closing only. Unreadable entries are logged and skipped.
//
// With Options.WaitReplicas f gets only what replicas have, since callers keep it. KindUnavailable:
// they are missing.
func (s *Store) EachRecord(
	ctx context.Context, account signal.AccountID, after signal.Position, f func(*signal.Signal),
) (signal.Position, error) {
	wanted, p, upTo := codec.AccountBytes(account), s.Partition(account), after
	var bad unreadable
	start := "-"
	if !after.IsZero() {
		start = "(" + after.String()
	}
	end, err := s.confirmedEnd(ctx, p)
	if err != nil {
		return upTo, err
	}
	err = s.scanLogFrom(ctx, p, start, func(e *redisclient.Entry) error {
		if end.Compare(e.Position) < 0 {
			return errEnd
		}
		upTo = e.Position
		if !bytes.Equal(codec.RecordAccount(e.Header), wanted) {
			return nil
		}
		record, err := decodeEntry(e)
		if err != nil {
			bad.add(err)
			return nil
		}
		f(record)
		return nil
	})
	s.logUnreadable(p, bad.n, bad.first)
	if errors.Is(err, errEnd) {
		err = nil
	}
	return upTo, err
}

// errEnd ends a pass over a signal log at what replicas have.
var errEnd = errors.New("the end of what is read")

// confirmedEnd returns a position up to which replicas have a partition's signal log: its present
// end. Without Options.WaitReplicas it is behind all entries.
func (s *Store) confirmedEnd(ctx context.Context, p int) (signal.Position, error) {
	if s.WaitReplicas == 0 {
		return signal.Position{MS: math.MaxInt64}, nil
	}
	last, err := s.RDB.XRevRangeN(ctx, s.SignalsKey(p), "+", "-", 1).Result()
	if err != nil {
		return signal.Position{}, redisclient.Failed(err, "read the end of the signal log of partition %d", p)
	}
	if err := s.ConfirmRead(ctx, s.ConfirmKey(p)); err != nil || len(last) == 0 {
		return signal.Position{}, err
	}
	end, ok := signal.ParsePosition(last[0].ID)
	if !ok {
		return end, fmt.Errorf("the signal log of partition %d ends at %q", p, last[0].ID)
	}
	return end, nil
}

// EachSignal calls f for each signal whose creation is in a partition's signal log, with its
// metadata: the closed ones in the order of their closing, then the others in the order of their
// creation. Unreadable entries are logged and skipped.
func (s *Store) EachSignal(ctx context.Context, p int, f func(*signal.Signal) error) error {
	open := map[signal.SignalID]*signal.Signal{}
	var order []signal.SignalID
	var bad unreadable
	err := s.scanLogFrom(ctx, p, "-", func(e *redisclient.Entry) error {
		if !codec.IsClosing(e.Header) {
			record, err := codec.DecodeRecord(e.Position, e.Header, e.Body)
			if err != nil {
				bad.add(err)
				return nil
			}
			open[record.ID] = record
			order = append(order, record.ID)
			return nil
		}
		c, err := codec.DecodeClosed(e.Position, e.Header)
		if err != nil {
			bad.add(err)
			return nil
		}
		record := open[c.ID]
		if record == nil {
			return nil // its creation was trimmed
		}
		delete(open, c.ID)
		if record, err = closeRecord(record, e); err != nil {
			bad.add(err)
			return nil
		}
		return f(record)
	})
	s.logUnreadable(p, bad.n, bad.first)
	for _, id := range order {
		if record := open[id]; record != nil && err == nil {
			err = f(record)
		}
	}
	return err
}

// decodeEntry decodes an entry for EachRecord.
func decodeEntry(e *redisclient.Entry) (*signal.Signal, error) {
	if !codec.IsClosing(e.Header) {
		return codec.DecodeRecord(e.Position, e.Header, nil)
	}
	c, err := codec.DecodeClosed(e.Position, e.Header)
	if err != nil {
		return nil, err
	}
	if c.Closing.Reason == "" {
		return nil, errors.New("closing without a reason")
	}
	s := &signal.Signal{ID: c.ID, Account: c.Account, Closing: &c.Closing}
	c.Apply(s)
	return s, nil
}
