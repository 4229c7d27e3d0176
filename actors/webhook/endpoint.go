package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Messages of the partition's webhooks to an endpoint, which counts them.
type (
	// arrived carries new deliveries, oldest first.
	arrived struct{ items []*item }
	// stored carries deliveries that are now pending in Redis.
	stored struct{ items []*item }
	// pollNow is sent when Redis may have deliveries that the endpoint does not know.
	pollNow struct{}
	// deliveriesChanged is sent when deliveries were added or cancelled by a client.
	deliveriesChanged struct{}
	// changed is sent when the record was changed or removed.
	changed struct{}
)

// keepRunning refuses endpointIdle. sent is the number of messages sent to the endpoint.
type keepRunning struct{ sent int64 }

// Messages of an endpoint to itself.
type (
	// attemptsEnded is sent when the queue has attempts to collect, or may send more.
	attemptsEnded struct{}
	slotGranted   struct{} // by the limiter
	openDue       struct{} // the endpoint may be sent something again
	idleDue       struct{}
)

const (
	// idleAfter is the time without work after which an endpoint ends its actor.
	idleAfter = time.Minute
	// storeTimeout bounds one write, readTimeout one read.
	storeTimeout = 5 * time.Second
	readTimeout  = 5 * time.Second
	// oldWait is how long a wait is kept after its time.
	oldWait = time.Hour
)

// endpoint is the actor of one webhook that has work. All of its state is in Redis, or will
// be soon (inflight.go), so it may end at any time and another one continues. It has four
// parts, which do not know each other: the settings are what the record says (settings.go), the queue
// decides what may be sent now (queue.go), the backlog reads from Redis (backlog.go), and the outcomes
// are stored there (outcomes.go).
//
// This file handles new deliveries, slots and the end of the actor; endpoint_store.go what was read and
// what is to be stored.
type endpoint struct {
	o       *owned
	parent  engine.Ref
	account signal.AccountID
	id      signal.WebhookID
	log     *slog.Logger

	settings settings
	queue    *queue
	backlog  backlog
	outcomes outcomes
	early    []*item // arrived before the settings were read

	held      bool // it has asked for no request; its deliveries are only in Redis
	openTimer engine.Timer

	waiter waiter
	queued bool // waiter waits for a slot

	received int64 // messages of the parent
	worked   bool  // since the last idleDue
}

func newEndpoint(o *owned, parent engine.Ref, account signal.AccountID, id signal.WebhookID) *endpoint {
	log := o.log.With("webhook", string(id))
	return &endpoint{
		o:        o,
		parent:   parent,
		account:  account,
		id:       id,
		log:      log,
		settings: settings{o: o, account: account, id: id, log: log},
		backlog:  newBacklog(o, account, id),
		outcomes: outcomes{o: o, account: account, webhook: id},
	}
}

// Receive implements engine.Actor.
func (e *endpoint) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		e.start(c)
	case arrived:
		e.received++
		e.onArrived(c, m)
	case stored:
		e.received++
		e.onStored(c, m)
	case pollNow:
		e.received++
		e.search(c)
	case deliveriesChanged:
		e.received++
		e.refill(c)
	case changed:
		e.received++
		e.settings.changed = true
		e.queue.setTarget(nil) // later requests go to the new URL, with the new secret
		e.load(c)
	case keepRunning:
		e.received = m.sent
	case loadDue:
		e.load(c)
	case loaded:
		e.onLoaded(c, m)
	case slotGranted, openDue:
		e.fill(c)
	case attemptsEnded:
		e.onAttemptsEnded(c)
	case outcomesStored:
		e.onOutcomesStored(c, m)
	case lingered:
		e.outcomes.lingers = false
		e.outcomes.store(c, &e.backlog.waits)
	case storeDue:
		e.outcomes.write(c)
	case pageRead:
		e.onPageRead(c, m)
	case searchDue:
		e.onSearchDue(c)
	case pruned:
		e.onPruned(m)
	case idleDue:
		e.endIfIdle(c)
	case engine.Stopping, engine.Restarting:
		e.end(c)
	}
}

func (e *endpoint) start(c engine.Context) {
	self := c.Self()
	e.queue = newQueue(e.o.Node, func() { self.Tell(attemptsEnded{}) })
	e.waiter.account = e.account
	e.waiter.granted = func() { self.Tell(slotGranted{}) }
	e.queue.setShut(e.backlog.shut)
	c.After(idleAfter, idleDue{})
	e.load(c)
}

// load reads the settings.
func (e *endpoint) load(c engine.Context) {
	e.worked = true
	e.settings.load(c)
}

func (e *endpoint) onLoaded(c engine.Context, m loaded) {
	s, before, first := &e.settings, e.settings.record, !e.settings.known
	if signal.KindOf(m.err) == signal.KindNotFound {
		e.parent.Tell(finished{c.Self()}) // removed: requests in flight are cancelled with the actor
		return
	}
	if !s.take(c, &m) {
		return
	}
	// This actor maintains the health, so the one in the record may be older. Others can
	// only clear it, and the wait with it.
	if first {
		e.outcomes.health = s.record.Health
		e.backlog.waits.add(m.waits)
		e.queue.hold(e.outcomes.health.HeldUntil)
	} else if cleared := s.record.ClearedAt; !cleared.Equal(before.ClearedAt) && !e.outcomes.health.FailingSince.After(cleared) {
		e.outcomes.health = delivery.WebhookHealth{}
		e.queue.hold(time.Time{})
	}
	e.queue.setRate(s.record.Rate())
	t := s.open(c)
	e.queue.setTarget(t)
	if t == nil {
		e.empty() // the deliveries stay in Redis until a key opens the secret
	}
	e.noteHold(c, e.o.now())
	early := e.early
	e.early = nil
	e.onArrived(c, arrived{early})
	if t == nil {
		return
	}
	if s.disabled() {
		e.backlog.waits.forget(e.o.now().Add(farFuture))
	}
	if s.disabled() || !first && before.Status == delivery.WebhookDisabled {
		e.refill(c) // the deliveries of a disabled webhook are cancelled
	} else {
		e.search(c)
	}
	e.fill(c)
}

// onArrived accepts new deliveries. Those that do not fit, and those stored by now, are read
// from Redis later.
func (e *endpoint) onArrived(c engine.Context, m arrived) {
	e.worked = true
	if e.settings.disabled() || e.settings.sealed || e.held {
		e.release(m.items)
		return
	}
	if !e.settings.known {
		n := min(len(m.items), maxLive-len(e.early))
		e.early = append(e.early, m.items[:n]...)
		e.release(m.items[n:])
		return
	}
	var items, back []*item
	missed := false
	for _, d := range m.items {
		switch e.backlog.routeNew(d, e.queue.recovering) {
		case routeSend:
			items = append(items, d)
		case routeBehind:
			e.putBehind(d)
		case routeBack:
			back = append(back, d)
		case routeRead:
			e.queue.setShut(e.backlog.shut)
			missed = true
		case routeKnown:
		}
	}
	var dropped []*item
	e.queue.change(func(o *order) { dropped = o.addLive(items) })
	e.release(append(back, dropped...))
	if len(dropped) > 0 || missed {
		e.search(c)
	}
	e.outcomes.store(c, &e.backlog.waits)
	e.fill(c)
}

// onStored reads deliveries that are now in Redis, unless all of them are held.
func (e *endpoint) onStored(c engine.Context, m stored) {
	wanted := false
	for _, d := range m.items {
		wanted = e.backlog.noteStored(d) || wanted
	}
	if wanted {
		e.queue.setShut(e.backlog.shut)
		e.search(c)
	}
}

// empty releases the deliveries in the queue.
func (e *endpoint) empty() {
	var dropped []*item
	e.queue.change(func(o *order) { dropped = o.clear() })
	e.release(dropped)
	e.backlog.fallBehind(true)
	e.queue.setShut(e.backlog.shut)
	e.backlog.sortUnsaved()
}

// release gives back deliveries that this actor does not send. They are in Redis, or will
// be soon.
func (e *endpoint) release(dropped []*item) {
	if len(dropped) > 0 {
		// Earlier ones are stored, too, so that the next owner finds them in Redis and not
		// only in the log.
		e.queue.change((*order).expose)
	}
	for _, d := range dropped {
		e.backlog.giveBack(d)
	}
}

// putBehind makes d wait for the deliveries of its signal in Redis. If not all of these are
// known, or the account has too many pending ones, d is only released, and gets its place
// when it is read.
func (e *endpoint) putBehind(d *item) {
	if e.backlog.behind || len(d.Attempts) > 0 || d.isInFlight() && e.o.recorder.counts.reserve(e.account, 1) == 0 {
		e.release([]*item{d})
	} else {
		e.postpone(d)
	}
}

// postpone stores d with a time after the deliveries of its signal in Redis.
func (e *endpoint) postpone(d *item) {
	e.outcomes.add(e.backlog.waits.postpone(d), d)
	e.queue.settle(-1)
}

// noteHold gives the deliveries of the queue back when the endpoint begins to be held, and reads them again at
// the end. It schedules the next look at the queue if there is one after that of now.
func (e *endpoint) noteHold(c engine.Context, now time.Time) {
	at, held := e.queue.opens(now)
	e.openTimer.Stop()
	if !at.IsZero() {
		e.openTimer = c.After(e.o.in(at)+time.Millisecond, openDue{})
	}
	if held == e.held {
		return
	}
	e.held = held
	if held {
		e.o.options.Metrics.held.Inc()
		e.refill(c)
	} else {
		e.o.options.Metrics.held.Dec()
		e.search(c)
	}
}

// fill starts as many sending goroutines as work, concurrency, slots and the endpoint allow.
func (e *endpoint) fill(c engine.Context) {
	now := e.o.now()
	defer e.noteHold(c, now)
	for {
		host, l, more, ok := e.queue.wants(now)
		if !ok {
			if e.queued {
				e.queued = false
				e.o.limiter.withdraw(&e.waiter)
			}
			return
		}
		var s slot
		if more && !e.queued {
			if s, ok = e.o.limiter.acquireMore(&e.waiter, host, l); !ok {
				return
			}
		} else if s, ok = e.o.limiter.acquire(&e.waiter, host, l); !ok {
			e.queued = true
			return
		}
		e.queued = false
		e.worked = true
		e.queue.addWorker(l)
		q := e.queue
		c.Go(func(ctx context.Context) any {
			if !q.work(ctx, s) {
				return attemptsEnded{}
			}
			return nil
		})
	}
}

func (e *endpoint) onAttemptsEnded(c engine.Context) {
	e.worked = true
	e.evaluate()
	e.o.recorder.counts.refresh(c)
	e.outcomes.store(c, &e.backlog.waits)
	e.fill(c)
	e.read(c)
}

// endIfIdle ends the actor if it had no work for a while. The parent agrees if the endpoint
// has received all messages, and starts another one when deliveries are due.
func (e *endpoint) endIfIdle(c engine.Context) {
	c.After(idleAfter, idleDue{})
	e.backlog.waits.forget(e.o.now().Add(-oldWait)) // their deliveries were cancelled
	idle := !e.worked && !e.settings.sealed && !e.held && e.settings.known && !e.settings.loading &&
		e.queue.empty() && e.outcomes.idle() && e.backlog.idle(e.o.now())
	e.worked = false
	if idle {
		e.parent.Tell(endpointIdle{id: e.id, ref: c.Self(), received: e.received})
	}
}

// end releases slots and deliveries, and stores the outcomes.
func (e *endpoint) end(c engine.Context) {
	if e.queue == nil {
		return
	}
	e.o.limiter.withdraw(&e.waiter)
	if e.held {
		e.o.options.Metrics.held.Dec()
	}
	e.queue.setTarget(nil)
	e.queue.change(func(o *order) { o.clear() })
	e.evaluate()
	e.outcomes.storeLast(c, &e.backlog.waits)
}
