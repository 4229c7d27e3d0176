package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

const (
	crashEvents  = 200                   // each to webhookMany endpoints
	crashWaiting = 15_000                // deliveries that are not sent when the service is killed
	crashAnswer  = 20 * time.Millisecond // of an endpoint, so that requests are in flight

	scheduleAccounts  = 100 // each with webhookMany webhooks
	scheduleEach      = 100 // deliveries of a webhook
	scheduleSpan      = 8 * time.Hour
	scheduleWindows   = 4 // windows for which the schedule is observed
	scheduleLease     = 10 * time.Minute
	scheduleBatch     = 20 // events stored by one call
	scheduleSample    = 250 * time.Millisecond
	scheduleTolerance = time.Second // at the end: deliveries may be in flight
)

// webhookCrash kills the service while deliveries wait and requests are in flight, and
// starts it again.
func (b *bench) webhookCrash(ctx context.Context) (err error) {
	w, err := newWebhookRig(ctx, webhookMany)
	if err != nil {
		return err
	}
	defer w.end(ctx, &err)
	l, err := w.load(ctx, 0, webhookMany)
	if err != nil {
		return err
	}
	s, err := w.start(ctx, w.env...)
	if err != nil {
		return err
	}
	w.undo.Add("killed service", s.kill)
	total := int64(crashEvents * webhookMany)
	w.receiver.delay.Store(int64(crashAnswer))
	if err := l.push(ctx, crashAnswer, func(time.Duration, int64) int64 { return crashEvents }); err != nil {
		return err
	}
	if err := until(ctx, webhookDrain, time.Millisecond, func() (bool, error) {
		return w.receiver.received.Load() >= total-crashWaiting, w.receiver.err()
	}); err != nil {
		return err
	}
	unanswered := w.receiver.unanswered.Load()
	s.kill(ctx)
	time.Sleep(5 * crashAnswer) // until all that was sent has arrived
	arrived := w.receiver.received.Load()
	succeeded := int64(0)
	for _, id := range l.hooks {
		_, n, err := w.webhooks.Deliveries(ctx, l.account, id, delivery.Query{Status: delivery.Succeeded, Limit: 1})
		if err != nil {
			return err
		}
		succeeded += int64(n)
	}
	w.receiver.first.Store(0)
	start := time.Now()
	if _, err := w.serve(ctx, w.env...); err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	if err := w.stored(ctx); err != nil {
		return err
	}
	b.row(fmt.Sprintf("kill -9, %d of %d waiting", total-arrived, total), "lost %d (target 0), twice %d",
		total-w.receiver.received.Load(), w.receiver.duplicates.Load())
	b.row("  in flight at the kill (target: no others twice)",
		"%d, of them %d not answered yet", arrived-succeeded, unanswered)
	first := time.Unix(0, w.receiver.first.Load()).Sub(start)
	b.row("  first after the start (target 5 s)", "%s, last %s", short(first), short(took))
	return nil
}

// webhookSchedule measures a service with a million deliveries that are due over eight
// hours, at ten thousand endpoints.
func (b *bench) webhookSchedule(ctx context.Context) (err error) {
	w, err := newWebhookRig(ctx, scheduleAccounts*webhookMany)
	if err != nil {
		return err
	}
	defer w.end(ctx, &err)
	empty, err := b.idleService(ctx, w)
	if err != nil {
		return err
	}
	begun := time.Now()
	var due [][]int64
	memory := func() (int64, error) { return w.store.Client.MemoryUsed(ctx) }
	bytes, err := during(memory, func() (err error) {
		due, err = w.schedule(ctx)
		return err
	})
	if err != nil {
		return err
	}
	total := int64(len(due) * scheduleEach)
	b.row(fmt.Sprintf("%d deliveries stored, %d endpoints", total, len(due)), "%.0f/s, %d bytes of Redis each",
		float64(total)/time.Since(begun).Seconds(), bytes/total)
	w.receiver.record.Store(true)
	start := time.Now()
	s, err := w.serve(ctx, w.env...)
	if err != nil {
		return err
	}
	peak := int64(0)
	for time.Since(start) < scheduleWindows*b.window {
		n, err := s.resident()
		if err != nil {
			return err
		}
		peak = max(peak, n)
		time.Sleep(scheduleSample)
	}
	last, err := s.resident()
	if err != nil {
		return err
	}
	return b.scheduleRows(w, due, start, [3]int64{peak, last, empty})
}

// idleService returns the resident memory of an idle service.
func (b *bench) idleService(ctx context.Context, w *webhookRig) (int64, error) {
	s, err := w.start(ctx, w.env...)
	if err != nil {
		return 0, err
	}
	time.Sleep(b.window / 2)
	n, err := s.resident()
	s.stop(ctx)
	return n, err
}

// schedule stores the deliveries and returns the times at which they are due, by endpoint
// and event, in Unix ms.
func (w *webhookRig) schedule(ctx context.Context) ([][]int64, error) {
	due := make([][]int64, scheduleAccounts*webhookMany)
	accounts := make([]signal.AccountID, scheduleAccounts)
	hooks := make([][]signal.WebhookID, scheduleAccounts)
	for i := range accounts {
		var err error
		accounts[i] = signal.NewAccountID()
		if hooks[i], err = w.register(ctx, accounts[i], i*webhookMany, webhookMany); err != nil {
			return nil, err
		}
	}
	start := w.store.Client.Now()
	var group errgroup.Group
	for p := range w.store.Client.Partitions() {
		group.Go(func() error {
			return w.lease(ctx, p, func(epoch int64) error {
				for i, a := range accounts {
					if w.store.Client.Partition(a) != p {
						continue
					}
					dueOf := due[i*webhookMany:][:webhookMany]
					if err := w.scheduleAccount(ctx, epoch, start, a, hooks[i], dueOf); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return due, group.Wait()
}

// lease calls f as the owner of partition p.
func (w *webhookRig) lease(ctx context.Context, p int, f func(epoch int64) error) error {
	const node = "bench"
	epoch, _, err := w.store.Logs.TakeLease(ctx, p, node, scheduleLease)
	if err != nil {
		return err
	}
	if err := f(epoch); err != nil {
		return err
	}
	return w.store.Logs.ReleaseLease(ctx, p, node, epoch)
}

// scheduleAccount stores the deliveries of an account's events to its webhooks, and adds the
// times at which they are due to due.
func (w *webhookRig) scheduleAccount(
	ctx context.Context, epoch int64, start time.Time, a signal.AccountID, hooks []signal.WebhookID, due [][]int64,
) error {
	var batch []delivery.EventDeliveries
	for n := range scheduleEach {
		e := delivery.EventDeliveries{Event: signal.NewEventID()}
		e.Body = webhookBody(nil, e.Event, start, uint32(n))
		for i, hook := range hooks {
			at := start.Add(rand.N(scheduleSpan)).Truncate(time.Millisecond)
			due[i] = append(due[i], at.UnixMilli())
			e.Deliveries = append(e.Deliveries, delivery.Delivery{
				ID:            signal.DeliveryIDOf(e.Event, hook),
				Webhook:       hook,
				Account:       a,
				Event:         e.Event,
				Type:          signal.SignalCreated,
				Status:        delivery.Pending,
				CreatedAt:     start,
				NextAttemptAt: at,
			})
		}
		if batch = append(batch, e); len(batch) == scheduleBatch || n == scheduleEach-1 {
			if err := w.webhooks.StoreDeliveries(ctx, w.store.Client.Partition(a), epoch, batch); err != nil {
				return err
			}
			batch = nil
		}
	}
	return nil
}

// scheduleRows prints the lateness of deliveries after a start. memory is the maximum, the
// last value and that of an idle service.
func (b *bench) scheduleRows(w *webhookRig, due [][]int64, start time.Time, memory [3]int64) error {
	end := time.Now().Add(-scheduleTolerance)
	arrivals := w.receiver.take()
	var caughtUp time.Duration // from the start until all overdue deliveries had arrived
	var overdue, missing int
	for i := range due {
		arrived := map[uint32]int64{}
		for _, a := range arrivals[i] {
			arrived[a.event] = a.at
		}
		for n, ms := range due[i] {
			at, ok := arrived[uint32(n)]
			t := time.UnixMilli(ms)
			if t.Before(start) {
				overdue++
				caughtUp = max(caughtUp, time.Duration(at-start.UnixNano()))
			}
			if !ok && (t.Before(start) || t.Before(end)) {
				missing++
			}
		}
	}
	late := lateness(due, arrivals, start.Add(caughtUp))
	first := time.Unix(0, w.receiver.first.Load()).Sub(start)
	b.row(fmt.Sprintf("  after a start, %d overdue", overdue), "first %s, all %s, %d missing, %d twice",
		short(first), short(caughtUp), missing, w.receiver.duplicates.Load())
	b.row(fmt.Sprintf("  lateness of %d due in %s after that", len(late), time.Since(start).Round(time.Second)),
		"%s", latencies(late))
	b.row("  memory of the service", "at most %d MB, at the end %d MB (nothing stored: %d MB)",
		memory[0]>>20, memory[1]>>20, memory[2]>>20)
	return w.receiver.err()
}

// lateness returns the lateness of the deliveries that were due after a time.
func lateness(due [][]int64, arrivals [][]arrival, after time.Time) []time.Duration {
	var late []time.Duration
	for i := range arrivals {
		for _, a := range arrivals[i] {
			if t := time.UnixMilli(due[i][a.event]); t.After(after) {
				late = append(late, time.Duration(a.at-t.UnixNano()))
			}
		}
	}
	return late
}
