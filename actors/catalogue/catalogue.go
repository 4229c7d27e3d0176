package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

// Tail is the node's reader of the event logs.
type Tail interface {
	// Head returns the end of a partition's event log, as Redis reports it.
	Head(ctx context.Context, partition int) (signal.Position, error)
	// Wait returns once Publish has been called with all events up to p.
	Wait(ctx context.Context, partition int, p signal.Position) error
}

// Records is the signal log.
type Records interface {
	Partition(account signal.AccountID) int
	// ScanSignals calls f for each entry of a partition's signal log, in order, and then
	// for each open signal whose published confidence has changed. Some of the latter may
	// have been closed by an entry before.
	ScanSignals(ctx context.Context, partition int, f func(signal.LogEntry) error) error
	// CountOpen returns the number of open signals in a partition.
	CountOpen(ctx context.Context, partition int) (int, error)
}

// Options are the optional parts of a Catalogue.
type Options struct {
	Agents []signal.Agent // default: signal.Agents()
	// Name returns the catalogue name of an asset by any of its spellings. Signals with
	// prices are found by that name; default the spelling itself.
	Name func(asset string) string
	// Suggest returns the assets that a name, which no asset has, looks like; nil to suggest none.
	Suggest   func(ctx context.Context, name string) []string
	Retention time.Duration // signals older than this are not listed; default 90 days
	// MaxOpen is the limit of open signals per account. Open builds a partition once it
	// has half as many; with the default 0 at its first call.
	MaxOpen int
	// Follow has Publish called with all later events of a partition, for longer than Idle. It
	// is called at each use; nil if that is always so. KindUnavailable: it cannot be now.
	Follow func(ctx context.Context, partition int) error
	// Idle is how long a partition is kept after its last use; default 10 minutes.
	Idle time.Duration
	Now  func() time.Time // the clock of Redis; default time.Now
	Log  *slog.Logger     // nil to discard
}

// Catalogue lists the signals of all accounts.
type Catalogue struct {
	tail       Tail
	records    Records
	strategies *strategies
	suggest    func(ctx context.Context, name string) []string
	retention  time.Duration
	maxOpen    int
	follow     func(ctx context.Context, partition int) error
	idle       time.Duration
	now        func() time.Time
	log        *slog.Logger

	partitions []partition
	passes     tasks.Group // over partitions, for all callers that wait
}

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

// New returns a catalogue with the given number of partitions.
func New(tail Tail, records Records, partitions int, o Options) *Catalogue {
	if o.Agents == nil {
		o.Agents = signal.Agents()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Name == nil {
		o.Name = func(asset string) string { return asset }
	}
	if o.Suggest == nil {
		o.Suggest = func(context.Context, string) []string { return nil }
	}
	if o.Follow == nil {
		o.Follow = func(context.Context, int) error { return nil }
	}
	return &Catalogue{
		follow:     o.Follow,
		idle:       cmp.Or(o.Idle, 10*time.Minute),
		tail:       tail,
		records:    records,
		strategies: newStrategies(o.Agents, o.Name),
		suggest:    o.Suggest,
		retention:  cmp.Or(o.Retention, 90*24*time.Hour),
		maxOpen:    o.MaxOpen,
		now:        o.Now,
		log:        cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		partitions: make([]partition, partitions),
	}
}

// List returns the page of q and the exact number of matches. It fails with
// KindUnavailable if Redis cannot be reached.
func (c *Catalogue) List(ctx context.Context, q Query) ([]signal.Listing, int, error) {
	a, err := c.account(ctx, q.Account)
	if err != nil {
		return nil, 0, err
	}
	items, total := c.page(a, q)
	return items, total, nil
}

// Locations is List for callers that read the records: it returns where they are. With before,
// the location of a signal that an earlier call has returned, the page begins behind that
// signal, so that signals created meanwhile do not shift the pages.
func (c *Catalogue) Locations(ctx context.Context, q Query, before signal.Location) ([]signal.Location, int, error) {
	a, err := c.account(ctx, q.Account)
	if err != nil || a == nil {
		return []signal.Location{}, 0, err
	}
	items, total := a.locations(c.strategies, &q, c.oldest(), before)
	return items, total, nil
}

// Find returns the positions of a signal's creation and closing; the latter is zero while
// it is open. It fails with KindNotFound if the account has no such signal.
func (c *Catalogue) Find(ctx context.Context, id signal.AccountID, s signal.SignalID) (
	created, closed signal.Position, err error) {
	a, err := c.account(ctx, id)
	if err != nil {
		return created, closed, err
	}
	if a != nil {
		var ok bool
		if created, closed, ok = a.find(s, c.oldest()); ok {
			return created, closed, nil
		}
	}
	return created, closed, signal.NotFound("signal")
}

// oldest returns the millisecond at or before which signals are no longer listed.
func (c *Catalogue) oldest() int64 { return c.now().Add(-c.retention).UnixMilli() }

// account returns the signals of an account, including every event that was in the log at
// the time of the call, or nil.
func (c *Catalogue) account(ctx context.Context, id signal.AccountID) (*account, error) {
	p := c.records.Partition(id)
	if err := c.follow(ctx, p); err != nil {
		return nil, err
	}
	if err := c.build(ctx, p); err != nil {
		return nil, err
	}
	head, err := c.tail.Head(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := c.tail.Wait(ctx, p, head); err != nil {
		return nil, err
	}
	part := &c.partitions[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.state != ready {
		return nil, beingRead(fmt.Errorf("catalogue of partition %d is being built again", p))
	}
	return part.accounts[id], nil
}

// build makes partition p ready. Concurrent callers share one pass.
func (c *Catalogue) build(ctx context.Context, p int) error {
	part := &c.partitions[p]
	part.mu.Lock()
	part.used = time.Now()
	switch part.state {
	case ready:
		part.mu.Unlock()
		return nil
	case unbuilt:
		c.begin(ctx, p)
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

// beingRead returns the error of a list that needs a pass, which the next request awaits or begins.
func beingRead(cause error) *signal.Error {
	e := signal.Unavailable(cause)
	e.Message = "the list of signals is being read from the store: try again"
	return e
}

// begin starts a pass over an unbuilt partition, whose lock is held. The pass serves later
// callers, too, so it does not end with ctx.
func (c *Catalogue) begin(ctx context.Context, p int) {
	part := &c.partitions[p]
	built := make(chan struct{})
	part.state, part.built, part.waiting = building, built, nil
	if !c.passes.Go(ctx, func(ctx context.Context) { c.pass(ctx, p, built) }) {
		part.state, part.err = unbuilt, signal.Stopping(tasks.ErrClosed)
		close(built)
	}
}

// Close ends the running passes and waits for them.
func (c *Catalogue) Close(ctx context.Context) error { return c.passes.Close(ctx) }

// passTimeout bounds one pass over a partition's signal log.
const passTimeout = time.Minute

// pass reads a partition's signal log and then applies the events that were published in
// the meantime.
func (c *Catalogue) pass(ctx context.Context, p int, built chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	start := time.Now()
	var accounts map[signal.AccountID]*account
	var err error = beingRead(panics.ErrPanicked)
	panics.Guard(c.log, panics.Catalogue, func() { accounts, err = c.scan(ctx, p) }, "partition", p)
	part := &c.partitions[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	defer close(built)
	if part.built != built {
		// Gap was called meanwhile: the pass may lack events that the tail lost.
		return
	}
	if err == nil && !panics.Guard(c.log, panics.Catalogue, func() {
		part.accounts = accounts
		c.apply(part, part.waiting)
	}, "partition", p) {
		err = beingRead(panics.ErrPanicked)
	}
	part.err, part.waiting = err, nil
	if err != nil {
		part.state, part.accounts = unbuilt, nil
		return
	}
	part.state = ready
	c.log.Debug("catalogue built", "partition", p, "accounts", len(accounts), "took", time.Since(start))
}

// scan returns the accounts of a partition as its signal log records them.
func (c *Catalogue) scan(ctx context.Context, p int) (map[signal.AccountID]*account, error) {
	accounts := map[signal.AccountID]*account{}
	var e signal.LogEntry
	take := func() {
		a := accounts[e.Account]
		if a == nil {
			a = &account{}
			accounts[e.Account] = a
		}
		switch {
		case e.Created != nil:
			c.report(a.create(c.strategies, e.Position, e.ULID, e.Created, e.Weather))
		case e.Closed:
			a.change(e.ULID, e.Origin, e.Confidence, e.Position)
		default:
			a.change(e.ULID, e.Origin, e.Confidence, signal.Position{})
		}
	}
	at := func() []any { return []any{"partition", p, "signal", string(signal.SignalIDFromBytes(e.ULID))} }
	err := c.records.ScanSignals(ctx, p, func(next signal.LogEntry) error {
		e = next
		panics.GuardAt(c.log, panics.Catalogue, take, at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		a.ensureIndex(c.strategies)
	}
	return accounts, nil
}

// Publish applies the events that the tail has read, in their order. It waits only for
// short locks of the catalogue.
func (c *Catalogue) Publish(p int, events []signal.Event) {
	part := &c.partitions[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	switch part.state {
	case unbuilt: // the pass that builds it will read them
	case building:
		for i := range events {
			if concerns(events[i].Type) {
				part.waiting = append(part.waiting, events[i])
			}
		}
	case ready:
		c.apply(part, events)
	}
}

// concerns reports whether events of type t change a list.
func concerns(t signal.EventType) bool {
	return t == signal.SignalCreated || t == signal.SignalUpdated || t == signal.SignalClosed ||
		t == signal.AccountDeleted
}

// apply applies events to a ready partition, whose lock is held. The lock of an account
// is taken once for consecutive events of it: under load, readers would otherwise delay
// the tail at each event.
func (c *Catalogue) apply(part *partition, events []signal.Event) {
	for len(events) > 0 {
		id, n := events[0].Account, 1
		for n < len(events) && events[n].Account == id {
			n++
		}
		run := events[:n]
		events = events[n:]
		if !slices.ContainsFunc(run, func(e signal.Event) bool { return concerns(e.Type) }) {
			continue
		}
		a := part.accounts[id]
		if a == nil {
			a = &account{}
			part.accounts[id] = a
		}
		if c.applyTo(a, run) {
			delete(part.accounts, id)
		}
	}
}

// applyTo applies the events of an account. It reports whether the account was deleted.
func (c *Catalogue) applyTo(a *account, events []signal.Event) (deleted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range events {
		e := &events[i]
		switch {
		case e.Type == signal.AccountDeleted:
			deleted = true
			continue
		case !concerns(e.Type):
			continue
		}
		id, ok := signal.ULIDBytes(string(e.Listing.ID))
		if !ok {
			c.report(fmt.Errorf("list signal %q: the identifier is not valid", e.Listing.ID))
			continue
		}
		switch e.Type {
		case signal.SignalCreated:
			c.report(a.create(c.strategies, e.Position, id, e.Listing, e.Weather))
			a.ensureIndex(c.strategies)
		case signal.SignalUpdated:
			a.change(id, signal.Position{}, e.Listing.Confidence, signal.Position{})
		case signal.SignalClosed:
			a.change(id, signal.Position{}, e.Listing.Confidence, e.Position)
		}
	}
	return deleted
}

// report logs a signal that cannot be listed.
func (c *Catalogue) report(err error) {
	if err != nil {
		c.log.Error("signal is not listed", "err", err)
	}
}

// Gap records that the tail has lost events of partition p, which is then built again at
// its next use.
func (c *Catalogue) Gap(p int) {
	part := &c.partitions[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.state == building {
		part.err = beingRead(fmt.Errorf("events of partition %d were lost during its pass", p))
	}
	part.drop()
}

// drop makes a partition unbuilt. Its lock is held.
func (p *partition) drop() {
	p.state, p.built, p.accounts, p.waiting, p.limited = unbuilt, nil, nil, nil, false
}

// Trim frees the memory of partitions without a use for Options.Idle, and of signals that are no
// longer listed. It is called from time to time; lists do not depend on it.
func (c *Catalogue) Trim() {
	oldest := c.oldest()
	for i := range c.partitions {
		part := &c.partitions[i]
		part.mu.Lock()
		if part.state == ready && time.Since(part.used) >= c.idle {
			part.drop()
		}
		accounts := maps.Clone(part.accounts)
		part.mu.Unlock()
		for id, a := range accounts {
			if a.forget(oldest) {
				continue
			}
			part.mu.Lock()
			// Check again under the lock, where nothing can be added to it.
			if part.accounts[id] == a && !a.forget(oldest) {
				delete(part.accounts, id)
			}
			part.mu.Unlock()
		}
	}
}

// Size returns the number of signals in memory, for metrics.
func (c *Catalogue) Size() int {
	n := 0
	for i := range c.partitions {
		part := &c.partitions[i]
		part.mu.Lock()
		for _, a := range part.accounts {
			a.mu.RLock()
			n += int(a.rows.next - a.rows.first)
			a.mu.RUnlock()
		}
		part.mu.Unlock()
	}
	return n
}

// Open returns the number of open signals of an account, as far as this node has read; 0
// for a partition that is not built. It does not wait. It starts to build a partition
// only once that has half as many open signals as one account may have, so that a node
// without lists reads nothing as long as no account can be near its limit.
func (c *Catalogue) Open(id signal.AccountID) int {
	p := c.records.Partition(id)
	part := &c.partitions[p]
	part.mu.Lock()
	switch now := time.Now(); {
	case part.state == unbuilt && now.Sub(part.counted) >= countEvery:
		part.counted = now
		c.passes.Go(context.Background(), func(ctx context.Context) { c.beginIfMany(ctx, p) })
	case part.limited && now.Sub(part.counted) >= countEvery:
		part.counted, part.used = now, now
		c.passes.Go(context.Background(), func(ctx context.Context) { c.keep(ctx, p) })
	}
	a := part.accounts[id]
	part.mu.Unlock()
	if a == nil {
		return 0
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.rows.open
}

const (
	// countEvery is the minimum time between two counts of a partition's open signals,
	// countTimeout the maximum duration of one.
	countEvery   = time.Second
	countTimeout = 5 * time.Second
)

// beginIfMany starts a pass over an unbuilt partition that has half as many open signals
// as an account may have. If they cannot be counted, a later call of Open tries again.
func (c *Catalogue) beginIfMany(ctx context.Context, p int) {
	limited, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	open, err := 0, panics.ErrPanicked
	panics.Guard(c.log, panics.Catalogue, func() { open, err = c.records.CountOpen(limited, p) }, "partition", p)
	if err != nil || open < c.maxOpen/2 || !c.keep(limited, p) {
		return
	}
	part := &c.partitions[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.limited, part.used = true, time.Now()
	if part.state == unbuilt {
		c.begin(ctx, p)
	}
}

// keep has a partition followed for Open. It reports whether it is.
func (c *Catalogue) keep(ctx context.Context, p int) bool {
	err := panics.ErrPanicked
	panics.Guard(c.log, panics.Catalogue, func() { err = c.follow(ctx, p) }, "partition", p)
	return err == nil
}

// Page returns the page of q and the number of matches as far as this node has read,
// without asking Redis for newer events. Nothing is found unless List or Find has built
// the partition.
func (c *Catalogue) Page(q Query) ([]signal.Listing, int) {
	part := &c.partitions[c.records.Partition(q.Account)]
	part.mu.Lock()
	a := part.accounts[q.Account]
	part.mu.Unlock()
	return c.page(a, q)
}

func (c *Catalogue) page(a *account, q Query) ([]signal.Listing, int) {
	if a == nil {
		return []signal.Listing{}, 0
	}
	return a.list(c.strategies, &q, c.oldest())
}
