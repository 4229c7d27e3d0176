package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
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
	tail      Tail
	records   Records
	suggest   func(ctx context.Context, name string) []string
	retention time.Duration
	follow    func(ctx context.Context, partition int) error
	idle      time.Duration
	now       func() time.Time

	partitions partitions
	closings   closings
}

// New returns a catalogue with count partitions.
func New(tail Tail, records Records, count int, o Options) *Catalogue {
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
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	l := &loader{records: records, name: o.Name, log: log}
	return &Catalogue{
		follow:     o.Follow,
		idle:       cmp.Or(o.Idle, 10*time.Minute),
		tail:       tail,
		records:    records,
		suggest:    o.Suggest,
		retention:  cmp.Or(o.Retention, 90*24*time.Hour),
		now:        o.Now,
		partitions: partitions{list: make([]partition, count), loader: l, follow: o.Follow, maxOpen: o.MaxOpen, log: log},
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
	items, total := a.locations(&q, c.oldest(), before)
	return items, total, nil
}

// Find returns the positions of a signal's creation and closing; the latter is zero while
// it is open. It fails with KindNotFound if the view of the account has no such signal.
func (c *Catalogue) Find(ctx context.Context, id signal.AccountID, view *signal.View, s signal.SignalID) (
	created, closed signal.Position, err error) {
	a, err := c.account(ctx, id)
	if err != nil {
		return created, closed, err
	}
	if a != nil {
		var ok bool
		if created, closed, ok = a.find(s, view, c.oldest()); ok {
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
	if err := c.partitions.build(ctx, p); err != nil {
		return nil, err
	}
	head, err := c.tail.Head(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := c.tail.Wait(ctx, p, head); err != nil {
		return nil, err
	}
	part := &c.partitions.list[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.state != ready {
		return nil, beingRead(fmt.Errorf("catalogue of partition %d is being built again", p))
	}
	return part.accounts[id], nil
}

// Close ends the running passes and waits for them.
func (c *Catalogue) Close(ctx context.Context) error { return c.partitions.passes.Close(ctx) }

// Publish applies the events that the tail has read, in their order. It waits only for
// short locks of the catalogue.
func (c *Catalogue) Publish(p int, events []signal.Event) {
	defer c.closings.notify(events) // after the closings are listed
	part := &c.partitions.list[p]
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
		c.partitions.loader.apply(part, events)
	}
}

// Gap records that the tail has lost events of partition p, which is then built again at
// its next use.
func (c *Catalogue) Gap(p int) {
	part := &c.partitions.list[p]
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.state == building {
		part.err = beingRead(fmt.Errorf("events of partition %d were lost during its pass", p))
	}
	part.drop()
}

// Trim frees the memory of partitions without a use for Options.Idle, and of signals that are no
// longer listed. It is called from time to time; lists do not depend on it.
func (c *Catalogue) Trim() {
	oldest := c.oldest()
	for i := range c.partitions.list {
		part := &c.partitions.list[i]
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
	for i := range c.partitions.list {
		part := &c.partitions.list[i]
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
	a := c.partitions.open(c.records.Partition(id), id)
	if a == nil {
		return 0
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.rows.open
}

// Page returns the page of q and the number of matches as far as this node has read,
// without asking Redis for newer events. Nothing is found unless List or Find has built
// the partition.
func (c *Catalogue) Page(q Query) ([]signal.Listing, int) {
	part := &c.partitions.list[c.records.Partition(q.Account)]
	part.mu.Lock()
	a := part.accounts[q.Account]
	part.mu.Unlock()
	return c.page(a, q)
}

func (c *Catalogue) page(a *account, q Query) ([]signal.Listing, int) {
	if a == nil {
		return []signal.Listing{}, 0
	}
	return a.list(&q, c.oldest())
}

// Count is how many signals of an agent are listed.
type Count struct{ Open, Closed int }

// Counts returns the number of listed signals of a view by agent, as the totals of lists are. An agent
// without signals may be missing.
func (c *Catalogue) Counts(ctx context.Context, id signal.AccountID, view *signal.View) (map[signal.AgentID]Count, error) {
	a, err := c.account(ctx, id)
	if err != nil || a == nil {
		return nil, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.counts(view, a.rows.after(c.oldest())), nil
}

// SuggestAssets returns the assets that a name in a filter of the account looks like, the nearest first,
// if neither an asset nor a signal of the account has that name. The result is empty if the filter may
// have the name: signals with it may come, such as those of a subject of content. So it is while the
// lists cannot be read, and for a view of some assets, in which any other name selects nothing: whether an asset
// exists that it does not have must not show.
func (c *Catalogue) SuggestAssets(ctx context.Context, id signal.AccountID, view *signal.View, name string) []string {
	if view != nil && !view.Assets.All() {
		return nil
	}
	near := c.suggest(ctx, name)
	if len(near) == 0 {
		return nil
	}
	a, err := c.account(ctx, id)
	if err != nil {
		return nil
	}
	if a != nil {
		a.mu.RLock()
		defer a.mu.RUnlock()
		m, ok := a.match(&Query{View: view, Asset: name}, a.rows.after(c.oldest()))
		if ok && m.total() > 0 {
			return nil
		}
	}
	return near
}

// WeatherSignals returns the page of q and the exact number of matches. It fails with
// KindUnavailable if Redis cannot be reached.
func (c *Catalogue) WeatherSignals(ctx context.Context, q WeatherQuery) ([]signal.WeatherSignal, int, error) {
	a, err := c.account(ctx, q.Account)
	if err != nil || a == nil {
		return []signal.WeatherSignal{}, 0, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	items, total := a.weather.page(&q, sightOf(a, q.View), c.oldest())
	return items, total, nil
}

// WeatherSignal returns a Weather signal by its identifier. It fails with KindNotFound if
// the view of the account has no such signal.
func (c *Catalogue) WeatherSignal(ctx context.Context, account signal.AccountID, view *signal.View, id string) (
	signal.WeatherSignal, error) {
	a, err := c.account(ctx, account)
	if err != nil {
		return signal.WeatherSignal{}, err
	}
	s, ok := signal.ParseWeatherID(id)
	if !ok || a == nil {
		return signal.WeatherSignal{}, signal.NotFound("weather signal")
	}
	ulid, _ := signal.ULIDBytes(string(s))
	a.mu.RLock()
	defer a.mu.RUnlock()
	v := a.weather.byID[ulid]
	if v == nil || v.created <= c.oldest() || !seen(a, view, v.kind, v.group) {
		return signal.WeatherSignal{}, signal.NotFound("weather signal")
	}
	return v.signal(), nil
}
