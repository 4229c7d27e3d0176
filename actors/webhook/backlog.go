package webhook

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// backlogs has the pending deliveries of webhooks.
type backlogs interface {
	// DueDeliveries returns pending deliveries that are due at until, those that are
	// due for longest first and those named by except passed over, and when the first
	// one after until is due; zero if none is.
	DueDeliveries(ctx context.Context, partition int, account signal.AccountID, webhook signal.WebhookID, until time.Time, limit int,
		except map[signal.DeliveryID]bool) (due []delivery.PendingDelivery, next time.Time, err error)
}

// pageRead is a page of the backlog.
type pageRead struct {
	due  []delivery.PendingDelivery
	full bool // there may be more
	next time.Time
	err  error
}

// searchDue says that a delivery is due in Redis.
type searchDue struct{}

// backlog is how an endpoint reads what is due from Redis: a page when the queue runs
// low, as long as there is more, and again when something new is due. Every read
// begins at the oldest, so nothing can be passed by; what is held is left out.
type backlog struct {
	wanted  bool // something may be due that is not held
	reading bool
	stale   bool // the page that is being read is not to be used
	// released are deliveries that were stored while a page was being read, which may
	// show them as they were.
	released []signal.DeliveryID

	timer  engine.Timer
	due    time.Time // when timer sends searchDue; zero: there is none
	failed engine.Backoff
}

// idle says that nothing is to be read for longer than the parent looks ahead.
func (b *backlog) idle(now time.Time) bool {
	return !b.wanted && !b.reading && (b.due.IsZero() || b.due.Sub(now) > window)
}

// search has the backlog read, now or when there is room.
func (e *endpoint) search(c engine.Context) {
	e.worked = true
	e.backlog.wanted = true
	e.read(c)
}

// searchAt has it read at a time, too.
func (e *endpoint) searchAt(c engine.Context, at time.Time) {
	b := &e.backlog
	if at.IsZero() || !b.due.IsZero() && !at.Before(b.due) {
		return
	}
	b.timer.Stop()
	b.due = at
	// The store's times are whole milliseconds.
	b.timer = c.After(e.o.in(at)+time.Millisecond, searchDue{})
}

func (e *endpoint) onSearchDue(c engine.Context) {
	e.backlog.due = time.Time{}
	e.search(c)
}

// read reads a page if one is wanted and there is room.
func (e *endpoint) read(c engine.Context) {
	b := &e.backlog
	if !b.wanted || b.reading || !e.known || e.sealed || e.unsorted > 0 || !e.queue.backlogLow() {
		return
	}
	b.wanted, b.reading = false, true
	until := e.o.now()
	if e.disabled() {
		until = until.AddDate(1, 0, 0) // all that is pending
	}
	held := make(map[signal.DeliveryID]bool, len(e.held))
	for id := range e.held {
		held[id] = true
	}
	o, account, id := e.o, e.account, e.id
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		due, next, err := o.store.DueDeliveries(ctx, o.Partition, account, id, until, maxBacklog, held)
		return pageRead{due, len(due) == maxBacklog, next, err}
	})
}

func (e *endpoint) onPageRead(c engine.Context, m pageRead) {
	b := &e.backlog
	b.reading = false
	if b.stale {
		b.stale, b.wanted = false, true
		e.letGo()
		e.read(c)
		return
	}
	if m.err != nil {
		b.wanted = true
		b.failed.Log(e.log, "deliveries that are due are not readable", "err", m.err)
		e.searchAt(c, e.o.now().Add(b.failed.Next()))
		e.letGo()
		return
	}
	b.failed.Reset()
	b.wanted = b.wanted || m.full
	if m.full {
		m.due = wholeMillis(m.due)
	}
	var items []*item
	for _, d := range m.due {
		if _, held := e.held[d.ID]; held {
			continue
		}
		e.held[d.ID] = true
		// The page is not kept for one of it.
		items = append(items, &item{PendingDelivery: d, signal: signalOf(d.Type, d.Body)})
	}
	e.letGo()
	e.searchAt(c, m.next)
	if e.disabled() {
		items = e.giveUp(c, items)
	} else {
		items = e.admit(items)
		e.store(c)
	}
	e.queue.addBacklog(items)
	e.catchUp(&m)
	e.fill(c)
	if len(items) > 0 || e.shut {
		e.read(c) // else the next outcome that is stored makes room
	}
}

// wholeMillis returns the deliveries of a full page but for those of its last
// millisecond, which may not be all: they come with the next page, in the order of their
// events.
func wholeMillis(due []delivery.PendingDelivery) []delivery.PendingDelivery {
	n := len(due)
	for n > 0 && due[n-1].NextAttemptAt.Equal(due[len(due)-1].NextAttemptAt) {
		n--
	}
	if n == 0 {
		return due
	}
	return due[:n]
}

// refill has the queue filled anew: what is in it may not be what Redis has.
func (e *endpoint) refill(c engine.Context) {
	e.empty()
	e.backlog.stale = e.backlog.reading
	e.search(c)
}

// letGo forgets the deliveries that were stored while a page was being read.
func (e *endpoint) letGo() {
	for _, id := range e.backlog.released {
		delete(e.held, id)
	}
	e.backlog.released = nil
}

// giveUp reports deliveries of a disabled webhook as failed, and returns those that
// are sent nevertheless: tests that were not tried yet.
func (e *endpoint) giveUp(c engine.Context, items []*item) (tests []*item) {
	now, waiting := e.o.now(), &e.report.waiting
	for _, d := range items {
		if d.Type == signal.WebhookTest && len(d.Attempts) == 0 {
			d.Single = true
			tests = append(tests, d)
			continue
		}
		waiting.outcomes = append(waiting.outcomes, outcome{cancelled(d.Delivery, now), d})
		e.queue.settle(-1)
	}
	e.store(c)
	return tests
}

// cancelled returns d as it is when it is given up.
func cancelled(d delivery.Delivery, now time.Time) delivery.Delivery {
	d.Status, d.Error, d.CompletedAt = delivery.Failed, delivery.Cancelled, now
	d.WasDueAt, d.NextAttemptAt, d.Single = d.NextAttemptAt, time.Time{}, false
	return d
}
