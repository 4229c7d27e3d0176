package catalogue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// partition holds the accounts of one partition.
type partition struct {
	mu       sync.Mutex // guards all below
	state    state
	built    chan struct{} // closed when the current pass ends
	err      error         // the result of the last pass
	counted  time.Time     // when Open last counted open signals
	used     time.Time     // when it was last used
	limited  bool          // built because an account may be near its limit: Open uses it
	accounts map[signal.AccountID]*account
	// waiting holds the events that were published during the pass.
	waiting []signal.Event
}

type state uint8

const (
	unbuilt state = iota
	building
	ready
)

// drop makes a partition unbuilt. Its lock is held.
func (p *partition) drop() {
	p.state, p.built, p.accounts, p.waiting, p.limited = unbuilt, nil, nil, nil, false
}

// partitions builds the partitions that are used.
type partitions struct {
	list    []partition
	loader  *loader
	follow  func(ctx context.Context, partition int) error
	maxOpen int
	log     *slog.Logger
	passes  tasks.Group // over partitions, for all callers that wait
}

// build makes partition p ready. Concurrent callers share one pass.
func (s *partitions) build(ctx context.Context, p int) error {
	part := &s.list[p]
	part.mu.Lock()
	part.used = time.Now()
	switch part.state {
	case ready:
		part.mu.Unlock()
		return nil
	case unbuilt:
		s.begin(ctx, p)
	case building: // for an earlier caller
	}
	built := part.built
	part.mu.Unlock()
	select {
	case <-built:
		part.mu.Lock()
		defer part.mu.Unlock()
		return part.err
	case <-ctx.Done():
		return beingRead(ctx.Err())
	}
}

// begin starts a pass over an unbuilt partition, whose lock is held. The pass serves later
// callers, too, so it does not end with ctx.
func (s *partitions) begin(ctx context.Context, p int) {
	part := &s.list[p]
	built := make(chan struct{})
	part.state, part.built, part.waiting = building, built, nil
	if !s.passes.Go(ctx, func(ctx context.Context) { s.pass(ctx, p, built) }) {
		part.state, part.err = unbuilt, signal.Stopping(tasks.ErrClosed)
		close(built)
	}
}

// passTimeout bounds one pass over a partition's signal log.
const passTimeout = time.Minute

// pass reads a partition's signal log and then applies the events that were published in
// the meantime.
func (s *partitions) pass(ctx context.Context, p int, built chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	start := time.Now()
	var accounts map[signal.AccountID]*account
	var err error = beingRead(panics.ErrPanicked)
	panics.Guard(s.log, panics.Catalogue, func() { accounts, err = s.loader.scan(ctx, p) }, "partition", p)
	part := &s.list[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	defer close(built)
	if part.built != built {
		// Gap was called meanwhile: the pass may lack events that the tail lost.
		return
	}
	if err == nil && !panics.Guard(s.log, panics.Catalogue, func() {
		part.accounts = accounts
		s.loader.apply(part, part.waiting)
	}, "partition", p) {
		err = beingRead(panics.ErrPanicked)
	}
	part.err, part.waiting = err, nil
	if err != nil {
		part.state, part.accounts = unbuilt, nil
		return
	}
	part.state = ready
	s.log.Debug("catalogue built", "partition", p, "accounts", len(accounts), "took", time.Since(start))
}

const (
	// countEvery is the minimum time between two counts of a partition's open signals,
	// countTimeout the maximum duration of one.
	countEvery   = time.Second
	countTimeout = 5 * time.Second
)

// open returns the signals of an account for Open, or nil. It has a partition built or followed that needs to be.
func (s *partitions) open(p int, id signal.AccountID) *account {
	part := &s.list[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	switch now := time.Now(); {
	case part.state == unbuilt && now.Sub(part.counted) >= countEvery:
		part.counted = now
		s.passes.Go(context.Background(), func(ctx context.Context) { s.beginIfMany(ctx, p) })
	case part.limited && now.Sub(part.counted) >= countEvery:
		part.counted, part.used = now, now
		s.passes.Go(context.Background(), func(ctx context.Context) { s.keep(ctx, p) })
	}
	return part.accounts[id]
}

// beginIfMany starts a pass over an unbuilt partition that has half as many open signals
// as an account may have. If they cannot be counted, a later call of Open tries again.
func (s *partitions) beginIfMany(ctx context.Context, p int) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	open, err := 0, panics.ErrPanicked
	panics.Guard(s.log, panics.Catalogue, func() { open, err = s.loader.records.CountOpen(limited, p) }, "partition", p)
	if err != nil || open < s.maxOpen/2 || !s.keep(limited, p) {
		return
	}
	part := &s.list[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.limited, part.used = true, time.Now()
	if part.state == unbuilt {
		s.begin(ctx, p)
	}
}

// keep has a partition followed for Open. It reports whether it is.
func (s *partitions) keep(ctx context.Context, p int) bool {
	err := panics.ErrPanicked
	panics.Guard(s.log, panics.Catalogue, func() { err = s.follow(ctx, p) }, "partition", p)
	return err == nil
}

// beingRead returns the error of a list that needs a pass, which the next request awaits or begins.
func beingRead(cause error) *signal.Error {
	e := signal.Unavailable(cause)
	e.Message = "the list of signals is being read from the store: try again"
	return e
}
