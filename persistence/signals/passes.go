package signals

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// passes reads signal logs from blocks and entries.
type passes struct{ *eventlog.Store }

// logReader takes the entries of a signal log in order, out of blocks or as they are stored.
type logReader interface {
	// part returns the part of a stored block that it reads.
	part(*redisclient.Entry) []byte
	// addBlock takes the entries of a block for which next returns true. unread is an entry that is not
	// decoded in the block: next has add called for it.
	addBlock(b codec.Block, next func(at signal.Position, unread bool) (bool, error)) error
	add(*redisclient.Entry) error
}

// scanLog has r take the entries of a partition's signal log after a position and up to end: what blocks have
// from these, the rest from the log. It returns the position up to which r has taken them, also after
// an error.
func (s passes) scanLog(ctx context.Context, p int, after, end signal.Position, r logReader) (signal.Position, error) {
	upTo, err := s.scanBlocks(ctx, p, after, end, r)
	if err != nil {
		return upTo, err
	}
	err = s.scanLogFrom(ctx, p, "("+upTo.String(), func(e *redisclient.Entry) error {
		if end.Compare(e.Position) < 0 {
			return errEnd
		}
		upTo = e.Position
		return r.add(e)
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	return upTo, err
}

// scanLogFrom calls f for each entry of a partition's signal log in order, from a start as for
// XRANGE.
func (s passes) scanLogFrom(ctx context.Context, p int, start string, f func(*redisclient.Entry) error) error {
	return s.scanStream(ctx, s.SignalsKey(p), start, eventlog.ScanEntries, f)
}

// scanStream calls f for each entry of a stream in order, from a start as for XRANGE. Redis sends the next
// count entries while f gets the last ones.
func (s passes) scanStream(
	ctx context.Context, key, start string, count int, f func(*redisclient.Entry) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	pages, free := make(chan *page, 2), make(chan *page, 2)
	defer func() { // readPages ends first
		cancel()
		for range pages {
		}
	}()
	free <- &page{}
	free <- &page{}
	go s.readPages(ctx, key, start, count, pages, free)
	for page := range pages {
		if page.err != nil {
			return redisclient.Unavailable(page.err)
		}
		for i := range page.entries {
			if err := f(&page.entries[i]); err != nil {
				return err
			}
		}
		free <- page
	}
	if err := ctx.Err(); err != nil {
		return redisclient.Unavailable(err)
	}
	return nil
}

// page is a part of a log, or the error of reading it.
type page struct {
	buffer  redisclient.Buffer
	entries []redisclient.Entry // in buffer
	err     error
}

// readPages reads a stream from start on, count entries at a time, into the pages that it takes from
// free, in order. It closes pages at the end.
func (s passes) readPages(
	ctx context.Context, key, start string, count int, pages chan<- *page, free <-chan *page,
) {
	defer close(pages)
	for {
		var p *page
		select {
		case p = <-free:
		case <-ctx.Done():
			return
		}
		if !panics.Guard(s.Log, panics.Log, func() {
			p.entries, p.err = s.ReadRangeInto(ctx, &p.buffer, p.entries, key, start, "+", count)
		}, "key", key, "from", start) {
			p.err = panics.ErrPanicked
		}
		if p.err == nil && len(p.entries) > 0 {
			start = "(" + p.entries[len(p.entries)-1].Position.String()
		}
		end := p.err != nil || len(p.entries) < count
		pages <- p // never blocks: the channel has room for all pages
		if end {
			return
		}
	}
}

// scanBlocks has r take the entries of a partition's blocks after a position and up to end, as if they were read
// from the signal log, and returns the position up to which it did. The log has what follows: a block that does
// not continue the one before it ends them, and so does one that this build cannot read. Damaged
// blocks are removed, so that the owner makes them again. Those of a later build are left alone.
func (s passes) scanBlocks(ctx context.Context, p int, after, end signal.Position, r logReader) (signal.Position, error) {
	upTo := after
	log, err := s.ReadInfo(ctx, s.SignalsKey(p))
	if err != nil {
		return upTo, redisclient.Unavailable(err)
	}
	if !log.Complete || log.First.IsZero() {
		return upTo, nil
	}
	next := func(at signal.Position, unread bool) (bool, error) {
		if at.Compare(log.First) < 0 || at.Compare(after) <= 0 { // trimmed, or taken before
			return false, nil
		}
		if unread {
			if err := s.scanEntry(ctx, p, at, r); err != nil {
				return false, err
			}
		}
		upTo = at
		return !unread, nil
	}
	var buffer []byte
	first := true
	err = s.scanStream(ctx, s.BlocksKey(p), "("+after.String(), blocksRead, func(e *redisclient.Entry) error {
		part := r.part(e)
		if end.Compare(e.Position) < 0 || log.Generated.Compare(e.Position) < 0 {
			return errEnd
		}
		block, err := codec.OpenBlock(part, buffer)
		if err != nil {
			return err
		}
		buffer = block.Bytes()
		// The first one may begin before what is wanted, or be left of several, of which the log has no
		// entries either.
		follows := block.After == upTo
		if first {
			follows = block.After.Compare(upTo) <= 0 || block.After.Compare(log.First) < 0
		}
		if !follows {
			return errEnd
		}
		first = false
		if err := r.addBlock(block, next); err != nil {
			return err
		}
		upTo = e.Position
		return nil
	})
	switch {
	case errors.Is(err, errEnd), errors.Is(err, codec.ErrLaterBlock):
		err = nil
	case errors.Is(err, codec.ErrBlock):
		s.Log.Warn("blocks of the signal log are removed, and made again from the log", "component", "persistence",
			"partition", p, "err", err)
		err = redisclient.Failed(s.RDB.Del(ctx, s.BlocksKey(p)).Err(), "remove blocks of partition %d", p)
	}
	return upTo, err
}

// scanEntry has r take the entry at a position.
func (s passes) scanEntry(ctx context.Context, p int, at signal.Position, r logReader) error {
	entries, err := s.ReadRange(ctx, s.SignalsKey(p), at.String(), at.String(), 1)
	if err != nil {
		return redisclient.Unavailable(err)
	}
	for i := range entries {
		if err := r.add(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// errEnd ends a pass over a signal log at what replicas have.
var errEnd = errors.New("the end of what is read")

// unreadable counts entries that could not be decoded.
type unreadable struct {
	n     int
	first error
}

func (s passes) logUnreadable(p, entries int, err error) {
	if entries > 0 {
		s.Log.Error("signals are not readable", "component", "persistence", "partition", p,
			"entries", entries, "err", err)
	}
}

func (u *unreadable) add(err error) {
	if u.n++; u.n == 1 {
		u.first = err
	}
}

// confirmedEnd returns a position up to which replicas have a partition's signal log: its present
// end. Without Options.WaitReplicas it is behind all entries.
func (s passes) confirmedEnd(ctx context.Context, p int) (signal.Position, error) {
	if s.Replicas.Want == 0 {
		return signal.Position{MS: math.MaxInt64}, nil
	}
	last, err := s.RDB.XRevRangeN(ctx, s.SignalsKey(p), "+", "-", 1).Result()
	if err != nil {
		return signal.Position{}, redisclient.Failed(err, "read the end of the signal log of partition %d", p)
	}
	if err := s.Reads.Confirm(ctx, s.ConfirmKey(p)); err != nil || len(last) == 0 {
		return signal.Position{}, err
	}
	end, ok := signal.ParsePosition(last[0].ID)
	if !ok {
		return end, fmt.Errorf("the signal log of partition %d ends at %q", p, last[0].ID)
	}
	return end, nil
}
