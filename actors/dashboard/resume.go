package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// EventLog is read by a resume when the ring does not reach back far enough.
type EventLog interface {
	// ReadLog returns up to limit events of all accounts of partition after a position, in
	// order; none at the end of the log.
	ReadLog(ctx context.Context, partition int, after signal.Position, limit int) ([]signal.Event, error)
	// Wait returns once no more events up to p will be passed to Hub.Publish.
	Wait(ctx context.Context, partition int, p signal.Position) error
}

const (
	readPage  = 2000 // events per call of ReadLog
	maxReads  = 4    // concurrent reads of event logs
	readLimit = 10 * time.Second
	keepRead  = time.Minute // how long an unused backfill is kept for other resumes
)

// replay holds the frames for a resume: those that match the subscription, in their
// order. The zero value means that the resume is not possible.
type replay struct {
	complete bool
	from     signal.Position // the last event that the client has
	frames   []*frame
	// firm is a position up to which every live event is already in the flushers'
	// inboxes.
	firm signal.Position
	// known is the position up to which frames is complete.
	known signal.Position
}

// resumer finds the events that a client has missed. Its methods are safe for
// concurrent use; they block, so actors and flushers must not call them.
type resumer struct {
	ring     *ring
	log      EventLog // nil to search only the ring
	now      func() time.Time
	messages int
	entries  int
	bytes    int
	age      time.Duration
	reads    chan struct{}
	counts   *entryCounts
	name     func(asset string) string
	logger   *slog.Logger

	mu        sync.Mutex
	backfills map[signal.AccountID]*backfill
	held      int // bytes of all frames in backfills, at most the field bytes
}

func newResumer(r *ring, o Options) *resumer {
	return &resumer{
		ring:      r,
		log:       o.Log,
		now:       o.Now,
		messages:  o.ReplayMessages,
		entries:   o.ReplayEntries,
		bytes:     o.ReplayBytes,
		age:       o.ReplayAge,
		reads:     make(chan struct{}, maxReads),
		counts:    newEntryCounts(o.ReplayAge),
		name:      o.Name,
		logger:    o.Logger,
		backfills: make(map[signal.AccountID]*backfill),
	}
}

// find returns the events for sub that account missed after the event id. With an
// error, which the caller logs, it returns the zero replay.
func (r *resumer) find(
	ctx context.Context, partition int, account signal.AccountID, sub *subscription, id string,
) (replay, error) {
	p, ok := signal.ParsePosition(id)
	if !ok || r.now().Sub(p.Time()) > r.age {
		return replay{}, nil
	}
	e := r.ring.after(partition, account, sub, p, signal.Position{}, r.messages)
	switch {
	case e.excess:
		return replay{}, nil
	case e.covered && e.found:
		return replay{complete: true, from: p, frames: e.frames, known: e.head}, nil
	case e.covered && !e.edge, r.log == nil:
		return replay{}, nil // p is not an event of the account
	}
	floor, _ := r.ring.floor(partition, account)
	if r.counts.exceed(partition, p, floor, r.entries) {
		return replay{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return r.findInLog(ctx, partition, account, sub, p)
}

// retryPause separates two attempts to read the event log.
const retryPause = 250 * time.Millisecond

// findWithin is find, repeated for readLimit while the event log cannot be read, as during a failover
// of Redis. After an error nothing is known of what was missed.
func (r *resumer) findWithin(
	ctx context.Context, partition int, account signal.AccountID, sub *subscription, id string,
) (replay, error) {
	for begun := time.Now(); ; {
		found, err := r.find(ctx, partition, account, sub, id)
		if err == nil || time.Since(begun) > readLimit || !backoff.Sleep(ctx, retryPause) {
			return found, err
		}
	}
}

// findInLog is like find, for a position p before the ring's oldest.
func (r *resumer) findInLog(
	ctx context.Context, partition int, account signal.AccountID, sub *subscription, p signal.Position,
) (replay, error) {
	b := r.take(account)
	defer r.release(account, b)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return replay{}, fmt.Errorf("wait for a read of the event log: %w", ctx.Err())
	}
	if len(b.frames) == 0 || p.Compare(b.frames[0].at) < 0 {
		if known, err := r.reachBack(ctx, b, partition, account, p); err != nil || !known {
			return replay{}, err
		}
	}
	for {
		e := r.ring.after(partition, account, sub, b.upTo, signal.Position{}, r.messages)
		if e.covered {
			return r.join(b, sub, p, e), nil
		}
		if more, err := r.reachForward(ctx, b, partition, account); err != nil || !more {
			return replay{}, err
		}
	}
}

// join combines the frames read from the log with the newer ones of the ring.
func (r *resumer) join(b *backfill, sub *subscription, p signal.Position, e extract) replay {
	i, found := slices.BinarySearchFunc(b.frames, p, func(f *frame, p signal.Position) int {
		return f.at.Compare(p)
	})
	if !found || !sub.sees(b.frames[i]) {
		return replay{}
	}
	a := replay{complete: true, from: p, firm: b.upTo, known: b.upTo.Later(e.head)}
	for _, f := range b.frames[i+1:] {
		if sub.matches(f) {
			a.frames = append(a.frames, f)
		}
	}
	if e.excess || len(a.frames)+len(e.frames) > r.messages {
		return replay{}
	}
	a.frames = append(a.frames, e.frames...)
	return a
}

// reachBack extends b back to p. It returns false if the log has no event of the
// account at p, or too much after it.
func (r *resumer) reachBack(
	ctx context.Context, b *backfill, partition int, account signal.AccountID, p signal.Position,
) (bool, error) {
	until, bounded := r.ring.floor(partition, account)
	if len(b.frames) > 0 {
		until, bounded = before(b.frames[0].at), true
	}
	// Reading starts before p to check that p is an event of the account. If it is not,
	// events between p and the next one may have been trimmed.
	first, err := r.log.ReadLog(ctx, partition, before(p), 1)
	if err != nil {
		return false, fmt.Errorf("read event log: %w", err)
	}
	if len(first) == 0 || first[0].Position != p || first[0].Account != account {
		return false, nil
	}
	span := logSpan{after: before(p), anchor: p, until: until, bounded: bounded}
	frames, upTo, err := r.read(ctx, b, partition, account, &span)
	if err != nil || len(frames) == 0 || frames[0].at != p {
		return false, err
	}
	if len(b.frames) == 0 {
		b.upTo, b.anchor = upTo, span.anchor
	}
	b.frames = append(frames, b.frames...)
	return true, nil
}

// reachForward extends b to the beginning of the ring, or to the end of the log. It
// returns false if that is too far.
func (r *resumer) reachForward(
	ctx context.Context, b *backfill, partition int, account signal.AccountID,
) (bool, error) {
	floor, known := r.ring.floor(partition, account)
	span := logSpan{after: b.upTo, anchor: b.anchor, until: floor, bounded: known}
	frames, upTo, err := r.read(ctx, b, partition, account, &span)
	if err != nil || upTo.IsZero() {
		return false, err
	}
	b.frames = append(b.frames, frames...)
	b.upTo, b.anchor = upTo, span.anchor
	if known {
		return true, nil
	}
	// Nothing of this partition was published since the node started, or since a gap.
	// So the next events to be published lie after the end of the log.
	if err := r.log.Wait(ctx, partition, upTo); err != nil {
		return false, fmt.Errorf("wait for the tail: %w", err)
	}
	r.ring.begin(partition, upTo)
	return true, nil
}

// logSpan is a part of the event log, after one position and up to another one or to
// the end.
type logSpan struct {
	after, until signal.Position
	bounded      bool // by until
	// anchor is the last event in the log at or before after; read sets it to the last
	// event that it saw. Trimming removes the oldest events first, so as long as the
	// anchor is in the log, no event behind it was trimmed.
	anchor signal.Position
}

// read returns account's frames in span, and the position up to which they are
// complete. The zero position means that there are too many entries or bytes, or that
// some were trimmed; then b is empty, as it is after an error.
func (r *resumer) read(
	ctx context.Context, b *backfill, partition int, account signal.AccountID, span *logSpan,
) ([]*frame, signal.Position, error) {
	select {
	case r.reads <- struct{}{}:
		defer func() { <-r.reads }()
	case <-ctx.Done():
		return nil, signal.Position{}, fmt.Errorf("wait for other reads of the event log: %w", ctx.Err())
	}
	anchor := span.anchor
	frames, upTo, err := r.scan(ctx, b, partition, account, span)
	if err != nil {
		r.empty(b)
		return nil, signal.Position{}, fmt.Errorf("read event log: %w", err)
	}
	first, err := r.log.ReadLog(ctx, partition, before(anchor), 1)
	if err != nil {
		r.empty(b)
		return nil, signal.Position{}, fmt.Errorf("read event log: %w", err)
	}
	if upTo.IsZero() || len(first) == 0 || first[0].Position != anchor {
		r.empty(b)
		return nil, signal.Position{}, nil
	}
	return frames, upTo, nil
}

// scan is like read, without the check for trimmed events. It counts the entries of a span
// that is too long, so that other resumes are refused without a read.
func (r *resumer) scan(
	ctx context.Context, b *backfill, partition int, account signal.AccountID, span *logSpan,
) (frames []*frame, upTo signal.Position, err error) {
	var milestones []milestone
	number, tooLong := int64(0), false
	defer func() {
		if tooLong {
			r.counts.read(partition, milestones)
		}
	}()
	for at := span.after; ; {
		events, err := r.log.ReadLog(ctx, partition, at, readPage)
		if err != nil {
			return nil, upTo, err
		}
		end, bytes := len(events) == 0, 0
		for i := range events {
			e := &events[i]
			if end = span.bounded && e.Position.Compare(span.until) > 0; end {
				break
			}
			at, span.anchor = e.Position, e.Position
			if e.Account != account || tooLong {
				continue
			}
			if f := newFrame(e, r.name); f != nil && f.revoked == nil {
				frames = append(frames, f)
				bytes += len(f.text) + frameOverhead
			}
		}
		if bytes > 0 && !r.hold(b, bytes) {
			return nil, upTo, nil
		}
		switch {
		case end && tooLong:
			return nil, upTo, nil
		case end && span.bounded:
			return frames, at.Later(span.until), nil
		case end:
			return frames, at, nil
		}
		number += int64(len(events))
		milestones = append(milestones, milestone{at, number})
		if b.entries += len(events); b.entries > r.entries {
			frames, tooLong = nil, true
		}
	}
}
