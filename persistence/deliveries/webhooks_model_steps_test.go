package deliveries

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// These are the steps of TestWebhooksMatchModel after deliveries were made.

// pick returns a webhook and one of its deliveries, or nil.
func (m *hookModel) pick() (*modelWebhook, *modelDelivery) {
	w := m.any()
	if w == nil || len(w.deliveries) == 0 {
		return w, nil
	}
	list := w.sorted()
	return w, list[m.rand.IntN(len(list))]
}

// outcomes stores what attempts have changed. Deliveries that are not pending, and
// attempts that were made for another time, are left out.
func (m *hookModel) outcomes() {
	w, _ := m.pick()
	if w == nil {
		return
	}
	out := outcomesOf(&w.Webhook)
	var want []int
	for _, d := range w.sorted() {
		if m.rand.IntN(3) > 0 {
			continue
		}
		at := milli(m.clock * 1000)
		again := time.Time{}
		if m.rand.IntN(3) == 0 {
			again = at.Add(30 * time.Second)
		}
		after := attempt(d.Delivery, []int{0, 200, 204, 500}[m.rand.IntN(4)], at, again)
		stale := m.rand.IntN(8) == 0
		if stale {
			after.WasDueAt = after.WasDueAt.Add(time.Second)
		}
		if w.removed || stale || d.Status != delivery.Pending {
			want = append(want, len(out.Deliveries))
		} else {
			d.Delivery = after
		}
		out.Deliveries = append(out.Deliveries, after)
	}
	if m.rand.IntN(2) == 0 {
		h := delivery.WebhookHealth{FailingSince: milli(m.clock * 1000), Failures: 3, Warned: 1}
		if m.rand.IntN(2) == 0 {
			h.HeldUntil = milli(m.clock*1000 + 60_000)
		}
		if m.rand.IntN(2) == 0 {
			h = delivery.WebhookHealth{}
		}
		out.Health = &h
		if !w.removed {
			w.Health = h
		}
	}
	if m.rand.IntN(6) == 0 {
		after := disabled(w.Webhook, delivery.DisabledFailing, milli(m.clock*1000))
		after.UpdatedAt = after.DisabledAt
		out.Disabled = &after
		if !w.removed {
			record, err := appendWebhook(nil, &after)
			m.must("encode webhook", err)
			w.Webhook, w.record = after, string(record)
			w.Revision = w.record
		}
	}
	m.wantLeft(want, out)
}

// outcomesAtOnce stores outcomes of deliveries that were not stored before, those of each webhook in
// one write. Some of them are there nevertheless.
func (m *hookModel) outcomesAtOnce() {
	batch := m.draw()
	if m.rand.IntN(3) == 0 {
		batch = m.batches[m.rand.IntN(len(m.batches))]
	}
	for _, w := range m.webhooks {
		out := outcomesOf(&w.Webhook)
		var want []int
		succeed := m.rand.IntN(2) == 0 // all of them
		for _, e := range batch {
			for _, d := range e.Deliveries {
				if d.Webhook != w.ID {
					continue
				}
				at, again, status := milli(m.clock*1000), time.Time{}, 200
				if !succeed && m.rand.IntN(3) == 0 {
					again = at.Add(30 * time.Second)
				}
				if !succeed {
					status = []int{200, 500}[m.rand.IntN(2)]
				}
				after := attempt(d, status, at, again)
				known := w.deliveries[d.ID]
				switch {
				case w.removed, known != nil && known.Status != delivery.Pending,
					known != nil && !known.NextAttemptAt.Equal(d.NextAttemptAt):
					want = append(want, len(out.Deliveries))
				case known != nil:
					known.Delivery = after
				default:
					m.made(deliveriesOf(e.Event, string(e.Body), after))
				}
				out.Deliveries, out.Bodies = append(out.Deliveries, after), append(out.Bodies, e.Body)
			}
		}
		m.wantLeft(want, out)
	}
}

// adopt takes over a manual change. Its time is not known here, but must lie between since and now.
func (m *hookModel) adopt(d *modelDelivery, to delivery.Status, since time.Time) {
	m.Helper()
	got := m.stored(d.Delivery)
	at := got.NextAttemptAt
	d.Status, d.WasDueAt = to, time.Time{}
	if to == delivery.Failed {
		at = got.CompletedAt
		d.NextAttemptAt, d.CompletedAt, d.Error, d.Single = time.Time{}, at, delivery.Cancelled, false
	} else {
		d.NextAttemptAt, d.CompletedAt, d.Single = at, time.Time{}, true
	}
	if at.Before(since.Truncate(time.Millisecond)) || at.After(m.store.Now().Add(time.Millisecond)) {
		m.Errorf("delivery %s was changed at %v, not after %v", d.ID, at, since)
	}
	wantEqual(m, "changed", nil, d.Delivery, got)
}

func (m *hookModel) changeOne() {
	w, d := m.pick()
	if d == nil {
		return
	}
	from, to, code, do := delivery.Pending, delivery.Failed, "delivery_not_pending", m.hooks.Changes.CancelDelivery
	if m.rand.IntN(2) == 0 {
		from, to, code, do = delivery.Failed, delivery.Pending, "delivery_not_failed", m.hooks.Changes.RetryDelivery
	}
	since := m.store.Now()
	got, err := do(m.Context(), w.Account, w.ID, d.ID)
	switch {
	case w.removed:
		wantKind(m.T, "a change of a delivery of a removed webhook", err, signal.KindNotFound)
	case d.Status != from:
		wantError(m.T, err, signal.KindConflict, code)
	default:
		m.must("change one", err)
		m.adopt(d, to, since)
		wantEqual(m, "answered", nil, d.Delivery, got)
	}
}

func (m *hookModel) retryAll() {
	w := m.any()
	if w == nil {
		return
	}
	q := delivery.RetryQuery{Status: delivery.Failed, DryRun: m.rand.IntN(3) == 0}
	if m.rand.IntN(3) == 0 {
		q.Status = delivery.Succeeded
	}
	if m.rand.IntN(2) == 0 {
		q.Since = milli(m.rand.Int64N(m.clock*1000 + 1))
	}
	if m.rand.IntN(2) == 0 {
		q.Until = milli(m.rand.Int64N(m.clock*1000 + 1))
	}
	since := m.store.Now()
	n, err := m.hooks.Changes.RetryDeliveries(m.Context(), w.Account, w.ID, q)
	if w.removed {
		wantKind(m.T, "retries of a removed webhook", err, signal.KindNotFound)
		return
	}
	m.must("retry all", err)
	want := 0
	for _, d := range w.deliveries {
		if d.Status == q.Status && !d.CreatedAt.Before(q.Since) && (q.Until.IsZero() || d.CreatedAt.Before(q.Until)) {
			want++
			if !q.DryRun {
				m.adopt(d, delivery.Pending, since)
			}
		}
	}
	if n != want {
		m.Errorf("%d were retried by %+v, want %d", n, q, want)
	}
}

func (m *hookModel) cancelAll() {
	w := m.any()
	if w == nil {
		return
	}
	since := m.store.Now()
	n, err := m.hooks.Changes.CancelDeliveries(m.Context(), w.Account, w.ID)
	if w.removed {
		wantKind(m.T, "cancelling those of a removed webhook", err, signal.KindNotFound)
		return
	}
	m.must("cancel all", err)
	for _, d := range w.deliveries {
		if d.Status == delivery.Pending {
			n--
			m.adopt(d, delivery.Failed, since)
		}
	}
	if n != 0 {
		m.Errorf("%d too many were cancelled", n)
	}
}

// prune keeps few, or drops what ended before a time.
func (m *hookModel) prune() {
	w := m.any()
	if w == nil || w.removed {
		return
	}
	keep, before := m.rand.IntN(12), time.Time{}
	if m.rand.IntN(2) == 0 {
		keep, before = 1000, milli(m.rand.Int64N(m.clock)*1000+500)
	}
	retention := 100 * 365 * 24 * time.Hour
	if !before.IsZero() {
		retention = m.store.Now().Sub(before)
	}
	m.hookBench.prune(&w.Webhook, retention, keep, 0)
	list := w.sorted()
	for _, d := range slices.Backward(list) {
		if d.Status == delivery.Pending {
			continue
		}
		if keep--; keep < 0 || d.CompletedAt.Before(before) {
			delete(w.deliveries, d.ID)
		}
	}
}

// list compares a page with the model's.
func (m *hookModel) list() {
	w := m.any()
	if w == nil {
		return
	}
	q := delivery.Query{Limit: 1 + m.rand.IntN(10), Offset: m.rand.IntN(8)}
	if m.rand.IntN(2) == 0 {
		q.Status = delivery.Statuses[m.rand.IntN(3)]
	}
	if m.rand.IntN(2) == 0 {
		q.Type = []signal.EventType{signal.SignalCreated, signal.WebhookTest, signal.AgentStarted}[m.rand.IntN(3)]
	}
	var want []signal.DeliveryID
	total := 0
	for _, d := range slices.Backward(w.sorted()) {
		if w.removed || q.Status != "" && d.Status != q.Status || q.Type != "" && d.Type != q.Type {
			continue
		}
		if total++; total > q.Offset && len(want) < q.Limit {
			want = append(want, d.ID)
		}
	}
	list, n, err := m.hooks.History.Deliveries(m.Context(), w.Account, w.ID, q)
	m.must("list", err)
	var got []signal.DeliveryID
	for i := range list {
		got = append(got, list[i].ID)
		full := w.deliveries[list[i].ID].Delivery
		full.WasDueAt = time.Time{}
		if k := len(full.Attempts); k > 0 {
			last := full.Attempts[k-1]
			full.Attempts = []delivery.Attempt{{Number: last.Number, ResponseStatus: last.ResponseStatus}}
		}
		wantEqual(m, "listed", nil, full, list[i])
	}
	if d := cmp.Diff(want, got); d != "" || n != total {
		m.Errorf("%+v: %d in all, want %d (-want +got):\n%s", q, n, total, d)
	}
}

// formerOwner tries what only the owner may do.
func (m *hookModel) formerOwner() {
	w, d := m.pick()
	if d == nil {
		return
	}
	ctx, old := m.Context(), m.epoch-1
	e := signal.NewEventID()
	batch := deliveriesOf(e, "", testDelivery(&w.Webhook, e, milli(0)))
	wantError(m.T, m.hooks.Queue.StoreDeliveries(ctx, m.p, old, batch), signal.KindConflict, "not_owner")
	after := attempt(d.Delivery, 200, milli(0), time.Time{})
	_, err := m.hooks.Queue.StoreOutcomes(ctx, m.p, old, outcomesOf(&w.Webhook, after))
	wantError(m.T, err, signal.KindConflict, "not_owner")
	if d.Status != delivery.Pending {
		_, err = m.hooks.Retention.PruneDeliveries(ctx, m.p, old, w.ID, time.Hour, 0, 0)
		wantError(m.T, err, signal.KindConflict, "not_owner")
	}
	if more, err := m.hooks.Retention.EraseWebhooks(ctx, m.p, old); more {
		wantError(m.T, err, signal.KindConflict, "not_owner")
	}
}
