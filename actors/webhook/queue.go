package webhook

import (
	"context"
	"sync"
	"time"
)

// Limits of an endpoint's memory.
const (
	maxLive     = 512    // new deliveries that are not yet sent,
	maxLiveNode = 65_536 // and those of all endpoints of a process
	maxBacklog  = 100    // deliveries read from Redis at once
	lowBacklog  = 16     // deliveries left when the next page is read
	maxUnstored = 256    // attempts that ended and are not stored yet
)

// queue decides how many deliveries may be sent now, and collects the results. The actor of an endpoint
// shares it with its sending goroutines. After an attempt a goroutine takes the next
// delivery by itself, so that a delivery costs no message: the actor is notified once for
// all attempts that ended since it last collected them.
type queue struct {
	n      *Node
	notify func() // notifies the actor that attempts have ended; must not block

	mu          sync.Mutex
	target      *target // nil while nothing may be sent
	order       order
	concurrency concurrencyLimit
	pressure    pressure
	workers     [classes]int // goroutines, by the class of their slots
	idle        int          // workers that have not taken their first delivery
	ended       []attempt    // not yet collected by the actor
	unstored    int          // attempts that ended and are not stored, including ended
}

func newQueue(n *Node, notify func()) *queue {
	return &queue{
		n:           n,
		notify:      notify,
		order:       newOrder(&n.liveLeft),
		concurrency: newConcurrencyLimit(n.options.Concurrency),
	}
}

// setTarget sets the target of later requests; nil stops them.
func (q *queue) setTarget(t *target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.target = t
}

// setRate sets the maximum number of requests in a minute; 0 for no limit.
func (q *queue) setRate(perMinute int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pressure.setRate(perMinute, q.n.now())
	q.order.maxLive = maxLive
	if perMinute > 0 {
		q.order.maxLive = min(maxLive, perMinute)
	}
}

// hold sets until when the endpoint is held; zero opens it.
func (q *queue) hold(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pressure.until = until
}

// opens returns when to look again for deliveries that may be sent, or zero if nothing waits for a time, and
// whether the endpoint is held until then. now is that of wants: a turn between two readings of the clock would be missed.
func (q *queue) opens(now time.Time) (at time.Time, held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if held = q.pressure.held(now); held || q.order.waiting() > 0 {
		at = q.pressure.opens(now, q.idle)
	}
	return at, held
}

// change changes the order.
func (q *queue) change(do func(*order)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	do(&q.order)
}

// setShut sets whether live deliveries wait.
func (q *queue) setShut(shut bool) { q.change(func(o *order) { o.shut = shut }) }

// recovering reports whether the endpoint has failed recently.
func (q *queue) recovering() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.concurrency.recovering()
}

// wants reports whether there is work for another goroutine now, the host and the class of the
// slot it needs, and whether the endpoint already has a slot.
func (q *queue) wants(now time.Time) (host string, l class, more, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	running := q.running()
	if q.target == nil {
		return "", q.concurrency.class, running > 0, false
	}
	ok = running < q.limit(now, q.idle) && q.order.waiting() > q.idle && q.unstored+running < maxUnstored
	return q.target.to.HostName, q.concurrency.class, running > 0, ok
}

// Callers of the next two methods hold q.mu.

func (q *queue) running() int { return q.workers[fastClass] + q.workers[slowClass] }

// limit returns the maximum number of goroutines now, when so many of them are about to begin a request.
func (q *queue) limit(now time.Time, beginning int) int {
	switch p := &q.pressure; {
	case p.held(now) || p.early(now, beginning):
		return 0
	case p.halfOpen(now):
		return 1
	default:
		return q.concurrency.limit()
	}
}

// addWorker counts a goroutine that will call work with a slot in l.
func (q *queue) addWorker(l class) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers[l]++
	q.idle++
}

// work sends deliveries one after the other, as long as there are some and the endpoint may
// use the slot s, which it releases at the end. It returns false if there was none: then
// the actor was not notified.
func (q *queue) work(ctx context.Context, s slot) bool {
	defer q.n.limiter.release(s)
	d, t := q.begin(s)
	if d == nil {
		return false
	}
	for d != nil {
		a := t.attempt(ctx, q.n, d)
		if ctx.Err() != nil {
			break // the actor has ended: the delivery stays unchanged
		}
		d, t = q.next(s, a)
	}
	return true
}

// begin returns the first delivery of a goroutine, or nil.
func (q *queue) begin(s slot) (*item, *target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle--
	return q.assign(s)
}

// next records the end of a goroutine's attempt and returns its next delivery, or nil if it
// must end.
func (q *queue) next(s slot, a attempt) (*item, *target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !a.unsent {
		q.concurrency.after(&a.result)
		q.pressure.after(&a.result, a.ended)
	}
	a.held = q.pressure.until
	if a.result.Error == "" {
		q.order.leave(a.item) // after a failure the actor decides about the later ones
	}
	q.unstored++
	if q.ended = append(q.ended, a); len(q.ended) == 1 {
		q.notify()
	}
	if q.n.limiter.mustYield(s) {
		q.workers[s.class]--
		return nil, nil
	}
	return q.assign(s)
}

// assign removes a delivery for a goroutine with the slot s. It returns nil, and the
// goroutine must end, if nothing may be sent, the slot is for another class or host, or
// there are too many goroutines. The caller holds q.mu.
func (q *queue) assign(s slot) (*item, *target) {
	running, now := q.running(), q.n.now()
	if q.target == nil || s.flow.key.host != q.target.to.HostName || s.class != q.concurrency.class ||
		running > q.limit(now, 0) || q.unstored+running > maxUnstored {
		q.workers[s.class]--
		return nil, nil
	}
	d := q.order.pop(q.concurrency.recovering(), !q.pressure.until.IsZero())
	if d == nil {
		q.workers[s.class]--
	} else {
		q.pressure.begin(now)
	}
	return d, q.target
}

// collect returns the attempts that ended since the last call, in order.
func (q *queue) collect() []attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := q.ended
	q.ended = nil
	return ended
}

// settle records that n of the ended attempts are stored.
func (q *queue) settle(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unstored -= n
}

// backlogLow reports whether more of the backlog may be read.
func (q *queue) backlogLow() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order.backlog) <= lowBacklog && q.order.parked < maxLive && q.unstored < maxUnstored
}

// empty reports whether nothing waits, is being sent, or must be stored.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.order.len()+q.running()+q.unstored == 0
}
