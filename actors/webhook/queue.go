package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Limits of an endpoint's memory.
const (
	maxLive     = 512    // new deliveries that are not yet sent,
	maxLiveNode = 65_536 // and those of all endpoints of a process
	maxBacklog  = 100    // deliveries read from Redis at once
	lowBacklog  = 16     // deliveries left when the next page is read
	maxUnstored = 256    // attempts that ended and are not stored yet
	// liveTurns is how many live deliveries are sent between two of the backlog.
	liveTurns = 3
)

// queue decides what may be sent now, and collects the results. The actor of an endpoint
// shares it with its sending goroutines. After an attempt a goroutine takes the next
// delivery by itself, so that a delivery costs no message: the actor is notified once for
// all attempts that ended since it last collected them.
type queue struct {
	n      *Node
	notify func() // notifies the actor that attempts have ended; must not block

	mu          sync.Mutex
	target      *target // nil while nothing may be sent
	live        ring    // new deliveries
	maxLive     int     // the maximum of them: what a minute's rate allows, or the constant
	shut        bool    // live ones wait: Redis may have earlier ones
	backlog     []*item // read from Redis, oldest first
	ready       []*item // the previous delivery of their signal is done
	parked      int     // deliveries that wait for one of the same signal, or are ready
	chains      map[signal.SignalID]*chain
	turn        int
	concurrency concurrencyLimit
	pressure    pressure
	workers     [classes]int // goroutines, by the class of their slots
	idle        int          // workers that have not taken their first delivery
	ended       []attempt    // not yet collected by the actor
	unstored    int          // attempts that ended and are not stored, including ended
}

// attempt is an attempt that has ended.
type attempt struct {
	item    *item
	trigger delivery.Trigger
	result  sender.Result
	ended   time.Time
	body    []byte    // of the request where the format is not standard, else nil
	unsent  bool      // no request was made, because there is no message of the event
	held    time.Time // until when the endpoint is held after it, or zero
}

func newQueue(n *Node, notify func()) *queue {
	return &queue{
		n:           n,
		notify:      notify,
		maxLive:     maxLive,
		concurrency: newConcurrencyLimit(n.options.Concurrency),
		chains:      map[signal.SignalID]*chain{},
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
	q.maxLive = maxLive
	if perMinute > 0 {
		q.maxLive = min(maxLive, perMinute)
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
	if held = q.pressure.held(now); held || q.waiting() > 0 {
		at = q.pressure.opens(now, q.idle)
	}
	return at, held
}

// addLive adds new deliveries, oldest first. It returns the newest ones if there is no room
// for all.
func (q *queue) addLive(items []*item) (dropped []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, d := range items {
		if q.live.len()+q.parked >= q.maxLive {
			return items[i:]
		}
		if q.n.room.Add(-1) < 0 {
			q.n.room.Add(1)
			return items[i:]
		}
		q.live.push(d)
		q.link(d)
	}
	return nil
}

// addBacklog adds deliveries that were read from Redis, oldest first.
func (q *queue) addBacklog(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.backlog = append(q.backlog, items...)
	for _, d := range items {
		q.link(d)
	}
}

// setShut sets whether live deliveries wait.
func (q *queue) setShut(shut bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shut = shut
}

// clear removes and returns all deliveries except those being sent.
func (q *queue) clear() (dropped []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped, q.backlog = q.backlog, nil
	for q.live.len() > 0 {
		dropped = append(dropped, q.live.popOldest())
		q.n.room.Add(1)
	}
	dropped = slices.DeleteFunc(dropped, func(d *item) bool { return d.place != queued })
	dropped = append(dropped, q.unlink()...)
	q.ready, q.parked = nil, 0
	return dropped
}

// dropLive removes and returns the live deliveries, except those that others of their
// signal wait for and, of a recovering endpoint, those without earlier ones.
func (q *queue) dropLive() (dropped []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var kept []*item // newest first, as dropped
	for q.live.len() > 0 {
		d := q.live.popNewest()
		if d.place == queued && !(q.concurrency.recovering() && d.isFirst()) && q.unlinkLast(d) {
			q.n.room.Add(1)
			dropped = append(dropped, d)
		} else {
			kept = append(kept, d)
		}
	}
	for _, d := range slices.Backward(kept) {
		q.live.push(d)
	}
	return dropped
}

// expose releases the deliveries of the queue, so that those in flight are stored soon.
func (q *queue) expose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.live.n {
		q.live.at(i).released.Store(true)
	}
	for _, c := range q.chains {
		for _, d := range c.items {
			d.released.Store(true)
		}
	}
}

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
	ok = running < q.limit(now, q.idle) && q.waiting() > q.idle && q.unstored+running < maxUnstored
	return q.target.to.HostName, q.concurrency.class, running > 0, ok
}

// Callers of the next three methods hold q.mu.

func (q *queue) running() int { return q.workers[fastClass] + q.workers[slowClass] }

// waiting returns the number of deliveries that may be sent, as far as it is known.
func (q *queue) waiting() int {
	n := len(q.ready) + len(q.backlog)
	if !q.shut {
		n += q.live.len()
	}
	return n
}

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
		now := q.n.now()
		a := attempt{item: d, trigger: triggerOf(&d.Delivery)}
		body, err := d.Body, error(nil)
		if t.messages != nil {
			body, err = t.messages.Render(d.Body)
			a.body = body
		}
		if err != nil {
			a.unsent = true
			a.result = sender.Result{At: now, Error: delivery.NotMade + ": " + err.Error()}
		} else {
			a.result = q.n.sender.Send(ctx, sender.Request{
				To:       t.at(now),
				Body:     body,
				Event:    d.Event,
				Type:     d.Type,
				Delivery: d.ID,
				Attempt:  d.AttemptCount() + 1,
				At:       now,
			})
		}
		if ctx.Err() != nil {
			break // the actor has ended: the delivery stays unchanged
		}
		if t.messages != nil && a.result.RetryAfter == 0 {
			a.result.RetryAfter = t.messages.RetryAfter(a.result.Status, a.result.Body)
		}
		a.ended = q.n.now()
		if !a.unsent {
			q.n.options.Metrics.attempted(&a.result)
		}
		d, t = q.next(s, a)
	}
	return true
}

// triggerOf returns the trigger of the next attempt of d. The first attempt of a test is
// scheduled, even if the webhook is disabled.
func triggerOf(d *delivery.Delivery) delivery.Trigger {
	if d.Single && (d.Type != signal.WebhookTest || len(d.Attempts) > 0 || d.Error != "") {
		return delivery.Manual
	}
	return delivery.Scheduled
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
		q.leave(a.item) // after a failure the actor decides about the later ones
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
	d := q.pop()
	if d == nil {
		q.workers[s.class]--
	} else {
		q.pressure.begin(now)
	}
	return d, q.target
}

// pop removes the next delivery to send, or returns nil. It parks those that wait for
// another one of their signal. The caller holds q.mu.
func (q *queue) pop() *item {
	next := q.popAny
	if !q.pressure.until.IsZero() {
		next = q.popProbe
	}
	for {
		d := next()
		switch {
		case d == nil:
			return nil
		case d.place == removed:
		case !q.tryBegin(d):
			d.place = parked
			q.parked++
		default:
			return d
		}
	}
}

// popAny removes a ready delivery, else the oldest one. A recovering endpoint gets three of
// the newest, then one of the oldest, preferably from the backlog. The caller holds q.mu.
func (q *queue) popAny() (d *item) {
	if len(q.ready) > 0 {
		d, q.ready = cutFirst(q.ready)
		q.parked--
		if d.place == ready {
			d.place = queued
		}
		return d
	}
	live := q.live.len() > 0 && !q.shut
	oldest := true
	if q.concurrency.recovering() {
		q.turn++
		oldest = q.turn%(liveTurns+1) == 0
	}
	preferBacklog := func() bool {
		return !live || oldest && (q.concurrency.recovering() || !q.live.oldest().before(q.backlog[0]))
	}
	if len(q.backlog) > 0 && preferBacklog() {
		d, q.backlog = cutFirst(q.backlog)
		return d
	}
	if !live {
		return nil
	}
	q.n.room.Add(1)
	if oldest {
		return q.live.popOldest()
	}
	return q.live.popNewest()
}

// popProbe removes the delivery that loses least if the endpoint answers no better than before: the one with the most
// attempts to come, the oldest of these. So one that is answered 429 is not tried again while others wait, and
// no delivery uses up its attempts because it happens to be the first. The caller holds q.mu.
func (q *queue) popProbe() *item {
	live := q.live.len() > 0 && !q.shut
	best := -1
	for i, d := range q.backlog {
		if best < 0 || d.spent() < q.backlog[best].spent() {
			best = i
		}
	}
	switch {
	case len(q.ready) > 0 || best < 0 && !live:
		return q.popAny()
	case best < 0 || live && q.backlog[best].spent() > 0:
		q.n.room.Add(1)
		return q.live.popOldest()
	}
	d := q.backlog[best]
	q.backlog = slices.Delete(q.backlog, best, best+1)
	return d
}

// cutFirst splits items into the first and the others, nil without others.
func cutFirst(items []*item) (*item, []*item) {
	d := items[0]
	items[0] = nil
	if len(items) == 1 {
		return d, nil
	}
	return d, items[1:]
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
	return len(q.backlog) <= lowBacklog && q.parked < maxLive && q.unstored < maxUnstored
}

// empty reports whether nothing waits, is being sent, or must be stored.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.live.len()+len(q.backlog)+q.parked+q.running()+q.unstored == 0
}
