package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	// fresh is how long an answer of the store is valid, from the start of the lookup. A
	// revocation by another process takes effect within this time, also if Forget is not called
	// for it. Forget is called for the credentials of all accounts, whatever partitions this
	// process follows.
	fresh = time.Second
	// renewAfter is the age at which an answer in use is looked up again in the background,
	// so that no request waits.
	renewAfter = fresh / 2
	// lookupTimeout limits a lookup in the store.
	lookupTimeout = 3 * time.Second
	// evictionSample is the number of entries compared for an eviction of the oldest one.
	evictionSample = 8
)

// entry is an answer of the store. Only renewed changes after it is shared.
type entry[V any] struct {
	value   V
	account signal.AccountID
	missing bool // the store has no such record
	at      time.Time
	renewed atomic.Bool
}

// cache holds answers of the store for the time fresh. Missing records have a map of their
// own, so that guessed credentials do not evict valid ones.
//
// Ages are measured by the monotonic clock, so that a corrected wall clock does not extend
// an answer.
type cache[K comparable, V any] struct {
	max     int // entries in present; a quarter of it in missing
	log     *slog.Logger
	flights singleflight.Group
	lookups *tasks.Group

	mu      sync.RWMutex
	present map[K]*entry[V]
	missing map[K]*entry[V]
	// byAccount has the keys of each account in present.
	byAccount map[signal.AccountID]map[K]struct{}
	// epoch counts the calls that removed entries. The answer to a lookup that began before
	// one of them must not be cached, nor be shared with later callers.
	epoch uint64
}

func newCache[K comparable, V any](max int, log *slog.Logger, lookups *tasks.Group) *cache[K, V] {
	return &cache[K, V]{
		max:       max,
		log:       log,
		lookups:   lookups,
		present:   map[K]*entry[V]{},
		missing:   map[K]*entry[V]{},
		byAccount: map[signal.AccountID]map[K]struct{}{},
	}
}

// get returns a fresh answer, or nil. renew is set for one caller, which should repeat the
// lookup in the background.
func (c *cache[K, V]) get(k K) (e *entry[V], renew bool) {
	c.mu.RLock()
	e = c.present[k]
	if e == nil {
		e = c.missing[k]
	}
	c.mu.RUnlock()
	if e == nil {
		return nil, false
	}
	age := time.Since(e.at)
	if age >= fresh {
		return nil, false
	}
	return e, age >= renewAfter && !e.missing && e.renewed.CompareAndSwap(false, true)
}

// fetch looks k up in the store with load and caches the answer. Concurrent callers share
// one lookup. name is k as text. load returns KindNotFound for a missing record.
func (c *cache[K, V]) fetch(
	ctx context.Context, k K, name string, load func(context.Context) (V, signal.AccountID, error),
) (*entry[V], error) {
	const attempts = 2
	for range attempts {
		c.mu.RLock()
		epoch := c.epoch
		c.mu.RUnlock()
		flight := c.flights.DoChan(name+" "+strconv.FormatUint(epoch, 10), func() (any, error) {
			e := &entry[V]{at: time.Now()}
			err := panics.ErrPanicked
			// All callers wait for the lookup, so it outlives the first of them.
			if !c.lookups.Do(ctx, func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
				defer cancel()
				panics.Guard(c.log, panics.Credentials, func() { e.value, e.account, err = load(ctx) })
			}) {
				err = signal.Stopping(tasks.ErrClosed)
			}
			if err != nil && signal.KindOf(err) != signal.KindNotFound {
				return nil, err
			}
			e.missing = err != nil
			c.put(k, e, epoch)
			return e, nil
		})
		select {
		case r := <-flight:
			if r.Err != nil {
				return nil, r.Err
			}
			if e := r.Val.(*entry[V]); time.Since(e.at) < fresh {
				return e, nil
			}
		case <-ctx.Done():
			return nil, signal.Unavailable(ctx.Err())
		}
	}
	return nil, signal.Unavailable(fmt.Errorf("the store answers later than in %v", fresh))
}

// put caches e unless entries have been removed since epoch.
func (c *cache[K, V]) put(k K, e *entry[V], epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch != epoch {
		return
	}
	c.remove(k)
	into, limit := c.present, c.max
	if e.missing {
		into, limit = c.missing, max(1, c.max/4)
	}
	if len(into) >= limit {
		c.evict(into)
	}
	into[k] = e
	if !e.missing {
		of := c.byAccount[e.account]
		if of == nil {
			of = map[K]struct{}{}
			c.byAccount[e.account] = of
		}
		of[k] = struct{}{}
	}
}

// evict removes the oldest of a few entries. The order of a map is random enough for that.
func (c *cache[K, V]) evict(from map[K]*entry[V]) {
	var oldest *entry[V]
	var victim K
	n := 0
	for k, e := range from {
		if oldest == nil || e.at.Before(oldest.at) {
			oldest, victim = e, k
		}
		if n++; n == evictionSample {
			break
		}
	}
	c.remove(victim)
}

func (c *cache[K, V]) remove(k K) {
	delete(c.missing, k)
	e := c.present[k]
	if e == nil {
		return
	}
	delete(c.present, k)
	of := c.byAccount[e.account]
	delete(of, k)
	if len(of) == 0 {
		delete(c.byAccount, e.account)
	}
}

// forget removes k and makes the answers of lookups in flight stale.
func (c *cache[K, V]) forget(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	c.remove(k)
}

// forgetIf removes the entries of the account for which f returns true, and makes the
// answers of lookups in flight stale.
func (c *cache[K, V]) forgetIf(account signal.AccountID, f func(V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for k := range c.byAccount[account] {
		if f(c.present[k].value) {
			c.remove(k)
		}
	}
}

func (c *cache[K, V]) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.present)
	clear(c.missing)
	clear(c.byAccount)
}

// prune frees the memory of entries that are no longer fresh.
func (c *cache[K, V]) prune() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []map[K]*entry[V]{c.present, c.missing} {
		for k, e := range m {
			if time.Since(e.at) >= fresh {
				c.remove(k)
			}
		}
	}
}

// size returns the numbers of cached records and of missing ones.
func (c *cache[K, V]) size() (present, missing int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.present), len(c.missing)
}

// bounded is a map that evicts an arbitrary entry when it is full.
type bounded[K comparable, V any] struct {
	mu  sync.RWMutex
	m   map[K]V
	max int
}

func newBounded[K comparable, V any](max int) *bounded[K, V] {
	return &bounded[K, V]{m: map[K]V{}, max: max}
}

func (b *bounded[K, V]) get(k K) (V, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	v, ok := b.m[k]
	return v, ok
}

func (b *bounded[K, V]) put(k K, v V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.m) >= b.max {
		for old := range b.m {
			delete(b.m, old)
			break
		}
	}
	b.m[k] = v
}

func (b *bounded[K, V]) removeIf(f func(V) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, v := range b.m {
		if f(v) {
			delete(b.m, k)
		}
	}
}
