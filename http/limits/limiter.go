package limits

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	// leaseTime is how long leased tokens are valid.
	leaseTime = time.Second
	// retryStore is how long the store is not asked after it has failed.
	retryStore = time.Second
	// askTimeout is how long a request waits for the store before the process decides alone.
	askTimeout = time.Second
	// shards spread the buckets, so that requests rarely wait for a lock.
	shards = 32
	// evictionSample is the number of buckets compared for an eviction.
	evictionSample = 8
	// maxReturned bounds the calls to the store that give tokens back, a second.
	maxReturned    = 1000
	defaultBuckets = 131_072
	// closed is the aloneUntil of a closed Limiter.
	closed = math.MaxInt64
)

// Store holds the buckets that all processes share.
type Store interface {
	// TakeTokens returns back tokens that were taken before and takes at most want. It
	// returns the number of taken tokens and the time until the bucket is full.
	TakeTokens(ctx context.Context, class, who string, quota int, period time.Duration,
		want, back int) (taken int, full time.Duration, err error)
}

// Options configure a Limiter.
type Options struct {
	Quotas  Quotas
	Buckets int // in the memory of this process; 0: 131,072
	Log     *slog.Logger
}

// Limiter counts requests. Its methods are safe for concurrent use.
type Limiter struct {
	store  Store
	log    *slog.Logger
	quotas atomic.Pointer[[len(Classes)]Quota]
	start  time.Time
	seed   maphash.Seed
	max    int // buckets in a shard
	shards [shards]shard

	// aloneUntil is the time until which the store is not asked after a failure.
	aloneUntil atomic.Int64
	failing    atomic.Bool

	questions tasks.Group // requests in flight to the store
}

type shard struct {
	mu      sync.RWMutex
	buckets map[bucketID]*bucket
}

type bucketID struct {
	class int
	who   string
}

// New returns a limiter on store. Without a store it counts in this process only.
func New(store Store, o Options) *Limiter {
	l := &Limiter{
		store: store,
		log:   o.Log,
		start: time.Now(),
		seed:  maphash.MakeSeed(),
		max:   max(1, cmp.Or(o.Buckets, defaultBuckets)/shards),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.log = l.log.With("component", "limits")
	for i := range l.shards {
		l.shards[i].buckets = map[bucketID]*bucket{}
	}
	l.SetQuotas(o.Quotas)
	return l
}

// SetQuotas changes the quotas. A share of a quota that was used up counts as the same share
// of the new quota.
func (l *Limiter) SetQuotas(q Quotas) { l.quotas.Store(q.table()) }

func (l *Limiter) now() time.Duration { return time.Since(l.start) }

// Take counts a request of class by who, an account or an address, and decides whether it is
// allowed. IPv6 addresses count by their /64, which a client has to itself. If ctx ends or
// the store fails, the process decides alone. An unknown class is allowed.
func (l *Limiter) Take(ctx context.Context, class Class, who string) Decision {
	i, ok := class.index()
	if !ok {
		return Decision{Class: class, Allowed: true}
	}
	id := bucketID{i, network(who)}
	for waited := false; ; waited = true {
		q := l.quotas.Load()[i]
		if q.Off() {
			return Decision{Class: class, Allowed: true}
		}
		b := l.bucket(id)
		b.mu.Lock()
		if b.gone { // evicted before it was locked
			b.mu.Unlock()
			continue
		}
		d, asked := l.try(ctx, b, id, q, waited)
		b.mu.Unlock()
		if asked == nil {
			return d
		}
		l.await(ctx, b, asked)
	}
}

// try decides with what is known, or returns a channel to wait for. If the request has
// waited for an answer of the store already, the answer that there is no token is final,
// whatever rounding makes of the time of the next token.
func (l *Limiter) try(ctx context.Context, b *bucket, id bucketID, q Quota, waited bool) (Decision, <-chan struct{}) {
	class, now := Classes[id.class], l.now()
	b.settle(q, now)
	if b.leased > 0 && now < b.leaseEnd {
		b.leased--
		remaining, reset := b.state(q, now)
		return decide(class, q, true, remaining, reset), nil
	}
	if l.store == nil || class.local() || ctx.Err() != nil || now < time.Duration(l.aloneUntil.Load()) {
		b.unlease(q)
		allowed := b.free(q, now) > 0
		if allowed {
			b.take(q, now, 1)
		}
		remaining, reset := b.state(q, now)
		return decide(class, q, allowed, remaining, reset), nil
	}
	if b.empty && b.leased == 0 && (waited || b.untilFree(q, now) > 0) {
		return decide(class, q, false, 0, b.untilFree(q, now)), nil
	}
	b.waiting++
	if b.asking == nil {
		l.ask(ctx, b, id, q)
	}
	return Decision{}, b.asking
}

// await waits for the answer of the store. If that takes too long, the process decides alone
// for a while.
func (l *Limiter) await(ctx context.Context, b *bucket, asked <-chan struct{}) {
	timer := time.NewTimer(askTimeout)
	defer timer.Stop()
	select {
	case <-asked:
	case <-ctx.Done():
	case <-timer.C:
		l.alone(context.DeadlineExceeded)
	}
	b.mu.Lock()
	b.waiting--
	b.mu.Unlock()
}

// ask takes tokens from the store, for the waiting requests and for later ones, and returns
// unused tokens. It is called with b locked.
func (l *Limiter) ask(ctx context.Context, b *bucket, id bucketID, q Quota) {
	back := b.unlease(q)
	if back > 0 {
		b.size = 1 // the last lease was too large
	}
	b.size = min(max(1, b.size), q.lease())
	want := min(max(b.size, b.waiting), q.Requests)
	answered := make(chan struct{})
	b.asking = answered
	// The tokens are for all waiting requests, so the question outlives the first of them.
	// The store limits its time.
	class := string(Classes[id.class])
	if !l.questions.Go(ctx, func(ctx context.Context) {
		var taken int
		var full time.Duration
		err := panics.ErrPanicked
		panics.Guard(l.log, panics.Limiter, func() {
			taken, full, err = l.store.TakeTokens(ctx, class, id.who, q.Requests, q.Period, want, back)
		}, "class", class)
		b.mu.Lock()
		defer b.mu.Unlock()
		defer close(answered)
		b.asking = nil
		if err != nil {
			l.alone(err)
			return
		}
		if l.failing.CompareAndSwap(true, false) {
			l.log.Info("rate limits are counted by the store again")
		}
		now := l.now()
		b.full, b.leased, b.leaseEnd = now+full, max(0, taken), now+leaseTime
		b.size *= 2
		b.empty = taken <= 0
	}) {
		b.asking = nil
		l.aloneUntil.Store(closed)
		close(answered)
	}
}

// Close ends the requests in flight to the store and waits for them. Later requests are
// counted by this process alone.
func (l *Limiter) Close(ctx context.Context) error {
	l.aloneUntil.Store(closed)
	return l.questions.Close(ctx)
}

// alone makes the process count alone for a while after the store has failed.
func (l *Limiter) alone(err error) {
	until := l.aloneUntil.Load()
	if until == closed {
		return
	}
	l.aloneUntil.CompareAndSwap(until, int64(l.now()+retryStore))
	if l.failing.CompareAndSwap(false, true) {
		l.log.Warn("rate limits are counted by this process alone: the store does not answer", "err", err)
	}
}

// Peek returns the decision on a request without counting it, from the state in this
// process.
func (l *Limiter) Peek(class Class, who string) Decision {
	i, ok := class.index()
	if !ok {
		return Decision{Class: class, Allowed: true}
	}
	q := l.quotas.Load()[i]
	if q.Off() {
		return Decision{Class: class, Allowed: true}
	}
	id := bucketID{i, network(who)}
	s := l.shard(id)
	s.mu.RLock()
	b := s.buckets[id]
	s.mu.RUnlock()
	if b == nil {
		return decide(class, q, true, q.Requests, 0)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := l.now()
	b.settle(q, now)
	remaining, reset := b.state(q, now)
	return decide(class, q, remaining > 0, remaining, reset)
}

// network returns who, or the /64 of an IPv6 address.
func network(who string) string {
	if strings.IndexByte(who, ':') < 0 {
		return who
	}
	a, err := netip.ParseAddr(who)
	if err != nil || a.Unmap().Is4() {
		return who
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return who
	}
	return p.String()
}

func (l *Limiter) shard(id bucketID) *shard {
	return &l.shards[(maphash.String(l.seed, id.who)+uint64(id.class))%shards]
}

// bucket returns the bucket of id, which it creates if necessary.
func (l *Limiter) bucket(id bucketID) *bucket {
	s := l.shard(id)
	s.mu.RLock()
	b := s.buckets[id]
	s.mu.RUnlock()
	if b != nil {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.buckets[id]; b != nil {
		return b
	}
	if len(s.buckets) >= l.max {
		s.evict(l.now())
	}
	id.who = strings.Clone(id.who) // does not keep the request alive
	b = &bucket{}
	s.buckets[id] = b
	return b
}

// evict removes, of a few buckets, the one that is full or will be full first, which loses
// least. Its leased tokens fill up again with time.
func (s *shard) evict(now time.Duration) {
	var victim bucketID
	var soonest *bucket
	var soonestFull time.Duration
	const asked = 1000 * time.Hour
	n := 0
	for id, b := range s.buckets {
		b.mu.Lock()
		full, idle := b.full, b.idle(now)
		if b.asking != nil {
			full += asked // requests wait for this bucket
		}
		b.mu.Unlock()
		if soonest == nil || full < soonestFull || idle {
			victim, soonest, soonestFull = id, b, full
		}
		if n++; n == evictionSample || idle {
			break
		}
	}
	if soonest == nil {
		return
	}
	soonest.mu.Lock()
	soonest.gone = true
	soonest.mu.Unlock()
	delete(s.buckets, victim)
}

// Run returns unused tokens and removes full buckets until ctx ends. Without Run both happen
// late: at the next use of the bucket, or when there are too many.
func (l *Limiter) Run(ctx context.Context) error {
	ticker := time.NewTicker(leaseTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			panics.Guard(l.log, panics.Limiter, func() { l.sweep(ctx) })
		}
	}
}

func (l *Limiter) sweep(ctx context.Context) {
	type unused struct {
		id bucketID
		q  Quota
		n  int
	}
	var back []unused
	quotas := l.quotas.Load()
	for i := range l.shards {
		s := &l.shards[i]
		now := l.now()
		s.mu.Lock()
		for id, b := range s.buckets {
			b.mu.Lock()
			if q := quotas[id.class]; b.leased > 0 && b.asking == nil && now >= b.leaseEnd &&
				len(back) < maxReturned && !q.Off() {
				back = append(back, unused{id, q, b.unlease(q)})
				b.size = 1
			}
			if b.idle(now) {
				b.gone = true
				delete(s.buckets, id)
			}
			b.mu.Unlock()
		}
		s.mu.Unlock()
	}
	if l.store == nil {
		return
	}
	for _, u := range back {
		if ctx.Err() != nil || l.now() < time.Duration(l.aloneUntil.Load()) {
			return
		}
		class := string(Classes[u.id.class])
		if _, _, err := l.store.TakeTokens(ctx, class, u.id.who, u.q.Requests, u.q.Period, 0, u.n); err != nil {
			l.alone(err)
		}
	}
}

// size returns the number of buckets.
func (l *Limiter) size() int {
	n := 0
	for i := range l.shards {
		l.shards[i].mu.RLock()
		n += len(l.shards[i].buckets)
		l.shards[i].mu.RUnlock()
	}
	return n
}
