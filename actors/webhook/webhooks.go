package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Messages of endpoints to their parent.
type (
	// endpointIdle is sent when an endpoint has no work, with the number of messages it has
	// received.
	endpointIdle struct {
		id       signal.WebhookID
		ref      engine.Ref
		received int64
	}
	// finished is sent when the webhook of an endpoint was removed.
	finished struct{ ref engine.Ref }
)

// Messages of the parent to itself.
type (
	scanDue struct{}
	scanned struct {
		due []delivery.EndpointDue
		err error
	}
	startDue        struct{}
	inFlightDue     struct{}
	inFlightDone    struct{ err error }
	maintenanceDue  struct{}
	maintenanceDone struct{ err error }
)

// schedules finds webhooks with due deliveries.
type schedules interface {
	// DueEndpoints returns webhooks with a delivery that is due at until, ordered by the
	// time of the first one: at most limit after the first offset ones.
	DueEndpoints(ctx context.Context, partition int, until time.Time, offset, limit int) ([]delivery.EndpointDue, error)
}

const (
	// window is how far the scan looks ahead, so that endpoints run before their deliveries
	// are due; scanEvery is the time between two scans.
	window    = 10 * time.Second
	scanEvery = 5 * time.Second
	// scanPage is how many webhooks are read at once, scanLimit how many in one scan.
	scanPage  = 1000
	scanLimit = 20_000
	// startBatch is how many actors are started every startPause: each reads its record
	// first.
	startBatch = 100
	startPause = 20 * time.Millisecond
	// overdue is how late a delivery must be for a poll of its endpoint.
	overdue = scanEvery
	// farFuture is later than all deliveries are due.
	farFuture = 365 * 24 * time.Hour
)

// endpointFailures restarts an endpoint that panicked. One that panics more often stops; the
// scan starts another while deliveries are due.
var endpointFailures = engine.Supervision{Restarts: 5, Within: time.Minute}

// webhooks is the parent of the endpoints of an owned partition that have work. The
// Recorder notifies it of new deliveries. It does not depend on these messages: it scans
// Redis for due deliveries, and stores those that are in flight for too long.
type webhooks struct {
	o        *owned
	children map[signal.WebhookID]*child
	ids      map[engine.Ref]signal.WebhookID

	scans   int                    // successful ones
	waiting []delivery.EndpointDue // to be started, the earliest first
	pausing bool                   // a startDue is scheduled
	failed  backoff.Backoff

	storing bool // an inFlightDue or inFlightDone will come
	unsaved backoff.Backoff
}

// child is the actor of an endpoint.
type child struct {
	ref     engine.Ref
	account signal.AccountID
	sent    int64 // messages sent to it
}

func newWebhooks(o *owned) *webhooks {
	return &webhooks{o: o, children: map[signal.WebhookID]*child{}, ids: map[engine.Ref]signal.WebhookID{}}
}

// Receive implements engine.Actor.
func (w *webhooks) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		w.scan(c)
		w.storeInFlight(c, inFlightEvery)
		c.After(maintenance{w.o}.first(), maintenanceDue{})
	case deliveriesMade:
		for _, b := range m.batches {
			w.notify(c, b.account, b.id, arrived{b.items})
		}
		w.storeInFlight(c, inFlightEvery)
	case deliveriesStored:
		for _, b := range m.batches {
			w.notify(c, b.account, b.id, stored{b.items})
		}
	case forEndpoint:
		w.notify(c, m.account, m.id, m.message)
	case accountDeleted:
		w.onAccountDeleted(c, m)
	case scanDue:
		w.scan(c)
	case scanned:
		w.onScanned(c, m)
	case startDue:
		w.pausing = false
		w.start(c)
	case endpointIdle:
		w.onEndpointIdle(c, m)
	case finished:
		w.end(c, m.ref)
	case engine.Terminated:
		w.forget(m.Ref)
	case inFlightDue:
		w.onInFlightDue(c)
	case inFlightDone:
		w.onInFlightDone(c, m)
	case maintenanceDue:
		w.maintain(c)
	case maintenanceDone:
		w.onMaintenanceDone(c, m)
	}
}

// notify sends a message to an endpoint, and starts its actor if needed.
func (w *webhooks) notify(c engine.Context, account signal.AccountID, id signal.WebhookID, m any) {
	e := w.children[id]
	if e == nil {
		e = w.spawn(c, account, id)
	}
	e.sent++
	e.ref.Tell(m)
}

func (w *webhooks) spawn(c engine.Context, account signal.AccountID, id signal.WebhookID) *child {
	o, self := w.o, c.Self()
	e := &child{account: account}
	start := func() engine.Actor { return newEndpoint(o, self, account, id) }
	e.ref = c.Spawn(engine.Webhook, string(id), start, engine.Supervision{})
	w.children[id] = e
	w.ids[e.ref] = id
	return e
}

// onEndpointIdle ends an endpoint without work if it has received all messages; later ones
// go to a new actor. A restarted endpoint does not know how many it has received, so
// keepRunning sends it their number.
func (w *webhooks) onEndpointIdle(c engine.Context, m endpointIdle) {
	e := w.children[m.id]
	if e == nil || e.ref != m.ref {
		return
	}
	if e.sent != m.received {
		m.ref.Tell(keepRunning{e.sent})
		return
	}
	w.end(c, m.ref)
}

func (w *webhooks) end(c engine.Context, ref engine.Ref) {
	w.forget(ref)
	c.Stop(ref)
}

func (w *webhooks) forget(ref engine.Ref) {
	id, ok := w.ids[ref]
	if !ok {
		return
	}
	delete(w.ids, ref)
	delete(w.children, id)
}

// onAccountDeleted ends the endpoints of an account with their requests in flight.
func (w *webhooks) onAccountDeleted(c engine.Context, m accountDeleted) {
	for _, e := range w.children {
		if e.account == m.id {
			w.end(c, e.ref)
		}
	}
}

// scan searches Redis for endpoints with deliveries due soon. The first scan finds all with
// pending deliveries, so that changes made while the partition had no owner take effect at
// once.
func (w *webhooks) scan(c engine.Context) {
	o, ahead := w.o, window
	if w.scans == 0 {
		ahead = farFuture
	}
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		var all []delivery.EndpointDue
		until := o.now().Add(ahead)
		for {
			due, err := o.store.DueEndpoints(ctx, o.Partition, until, len(all), scanPage)
			all = append(all, due...)
			if err != nil || len(due) < scanPage || len(all) >= scanLimit {
				return scanned{all, err}
			}
		}
	})
}

func (w *webhooks) onScanned(c engine.Context, m scanned) {
	if m.err != nil {
		w.failed.Log(w.o.log, "webhooks that are due are not readable", "err", m.err)
		c.After(w.failed.Next(), scanDue{})
		return
	}
	w.failed.Reset()
	w.scans++
	c.After(scanEvery, scanDue{})
	w.waiting = w.waiting[:0]
	late := w.o.now().Add(-overdue)
	for _, d := range m.due {
		if w.children[d.Webhook] == nil {
			w.waiting = append(w.waiting, d)
		} else if d.At.Before(late) {
			w.notify(c, d.Account, d.Webhook, pollNow{})
		}
	}
	w.start(c)
}

// start starts the next waiting actors.
func (w *webhooks) start(c engine.Context) {
	if w.pausing {
		return
	}
	n := min(len(w.waiting), startBatch)
	for _, d := range w.waiting[:n] {
		if w.children[d.Webhook] == nil {
			w.spawn(c, d.Account, d.Webhook)
		}
	}
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
		return
	}
	w.pausing = true
	c.After(startPause, startDue{})
}

// storeInFlight schedules storing overdue deliveries, repeatedly while some are in flight.
func (w *webhooks) storeInFlight(c engine.Context, in time.Duration) {
	if !w.storing {
		w.storing = true
		c.After(in, inFlightDue{})
	}
}

func (w *webhooks) onInFlightDue(c engine.Context) {
	r := w.o.recorder
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		return inFlightDone{r.storeInFlight(ctx, time.Now().Add(-inFlightFor))}
	})
}

func (w *webhooks) onInFlightDone(c engine.Context, m inFlightDone) {
	w.storing = false
	if m.err != nil {
		if !w.o.Refused(m.err) {
			w.unsaved.Log(w.o.log, "deliveries are not stored", "err", m.err)
			w.storeInFlight(c, w.unsaved.Next())
		}
		return
	}
	w.unsaved.Reset()
	if count, _ := w.o.recorder.inFlight.trim(); count > 0 {
		w.storeInFlight(c, inFlightEvery)
	}
}

// maintain starts a pass of maintenance.go.
func (w *webhooks) maintain(c engine.Context) {
	m := maintenance{w.o}
	c.Go(func(ctx context.Context) any { return maintenanceDone{m.run(ctx)} })
}

func (w *webhooks) onMaintenanceDone(c engine.Context, m maintenanceDone) {
	switch {
	case m.err == nil:
		c.After(maintenanceEvery, maintenanceDue{})
	case w.o.Refused(m.err):
	default:
		w.o.log.Warn("maintenance of webhooks failed", "err", m.err)
		c.After(maintenanceRetry, maintenanceDue{})
	}
}
