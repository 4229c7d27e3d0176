package signals

import (
	"bytes"
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Outcomes reads the signal log with how signals ended.
type Outcomes struct{ passes }

// EachRecord calls f for each creation and closing of the account's signals in the signal log
// after a position, in order, with its own position. Of signals with a Reach, whose agents are those of accounts, creations have
// their metadata, as have closings by an agent. It returns the position up to
// which it has read, also after an error, so that a later call can continue there. A closing has ID, Account,
// Confidence, MFE, MAE, Sequence, Closing and that only. Unreadable entries are logged and skipped.
//
// With Options.WaitReplicas f gets only what replicas have, since callers keep it. KindUnavailable:
// they are missing.
func (s *Outcomes) EachRecord(
	ctx context.Context, account signal.AccountID, after signal.Position, f func(signal.Position, *signal.Signal),
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
		f(e.Position, record)
		return nil
	})
	s.logUnreadable(p, bad.n, bad.first)
	if errors.Is(err, errEnd) {
		err = nil
	}
	return upTo, err
}

// EachLeaf calls f for each leaf of the log of the account's partition, from that of the entry of the
// signal log at one position to that at another, in order: with the position, the index of the leaf, and
// how many leaves the newest checkpoint had when a signal closed. The newest entries have no leaf yet.
// Leaves whose place is not readable are skipped; leaves.Checker reports them. Waits are those of EachRecord.
func (s *Outcomes) EachLeaf(
	ctx context.Context, account signal.AccountID, from, to signal.Position,
	f func(at signal.Position, index, signed int64),
) error {
	var buffer redisclient.Buffer
	var entries []redisclient.Entry
	p, start, err := s.Partition(account), from.String(), error(nil)
	for more := true; more; more = len(entries) == eventlog.ScanEntries {
		entries, err = s.ReadRangeInto(ctx, &buffer, entries, s.LeavesKey(p), start, to.String(), eventlog.ScanEntries)
		if err != nil {
			return redisclient.Unavailable(err)
		}
		if err := s.Reads.Confirm(ctx, s.ConfirmKey(p)); err != nil {
			return err
		}
		for i := range entries {
			at := entries[i].Position
			if place, err := codec.DecodeLeafPlace(entries[i].Header); err == nil {
				f(at, place.Index, place.Signed)
			}
			start = "(" + at.String()
		}
	}
	return nil
}

// EachSignal calls f for each signal whose creation is in a partition's signal log, with its
// metadata: the closed ones in the order of their closing, then the others in the order of their
// creation. Unreadable entries are logged and skipped.
func (s *Outcomes) EachSignal(ctx context.Context, p int, f func(*signal.Signal) error) error {
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
		s, err := codec.DecodeRecord(e.Position, e.Header, nil)
		if err == nil && s.Reach != nil {
			s.Metadata, _ = codec.UnpackMetadata(e.Body) // the rest counts without it
		}
		return s, err
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
	if c.Closing.Reason == signal.AgentExit {
		s.Metadata, _ = codec.UnpackMetadata(e.Body)
	}
	return s, nil
}
