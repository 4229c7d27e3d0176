package deliveries

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// A delivery is made, tried, given up, retried and cancelled.
func TestDeliveryFromBeginToEnd(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	d := b.deliver(w, milli(1000))[0]
	d.WasDueAt = time.Time{}
	got, body, err := b.hooks.History.Delivery(ctx, b.account, w.ID, d.ID)
	b.must("read", err)
	if diff := cmp.Diff(d, got); diff != "" || string(body) != "body of "+string(d.Event) {
		t.Errorf("made with body %q (-want +got):\n%s", body, diff)
	}
	d = attempt(d, 503, milli(1400), milli(31_400))
	b.outcomes(w, d)
	d = attempt(d, 0, milli(32_000), time.Time{})
	b.outcomes(w, d)
	want := d
	want.WasDueAt = time.Time{}
	if diff := cmp.Diff(want, b.stored(d)); diff != "" || len(want.Attempts) != 2 {
		t.Errorf("given up (-want +got):\n%s", diff)
	}
	b.wantLeft([]int{0, 1}, outcomesOf(w, d, d)) // a repetition
	_, err = b.hooks.Changes.CancelDelivery(ctx, b.account, w.ID, d.ID)
	wantError(t, err, signal.KindConflict, "delivery_not_pending")
	events := len(b.eventsOf(b.account))
	before := b.store.Now().Truncate(time.Millisecond)
	again, err := b.hooks.Changes.RetryDelivery(ctx, b.account, w.ID, d.ID)
	b.must("retry", err)
	want.Status, want.Single = delivery.Pending, true
	want.CompletedAt, want.NextAttemptAt = time.Time{}, again.NextAttemptAt
	if diff := cmp.Diff(want, again); diff != "" || again.NextAttemptAt.Before(before) {
		t.Errorf("retried (-want +got):\n%s", diff)
	}
	e := b.eventsOf(b.account)[events:]
	if len(e) != 1 || e[0].Type != signal.DeliveriesChanged || e[0].Subject != string(w.ID) {
		t.Errorf("announced %+v", e)
	}
	_, err = b.hooks.Changes.RetryDelivery(ctx, b.account, w.ID, d.ID)
	wantError(t, err, signal.KindConflict, "delivery_not_failed")
	cancelled, err := b.hooks.Changes.CancelDelivery(ctx, b.account, w.ID, d.ID)
	b.must("cancel", err)
	want.Status, want.Single, want.Error = delivery.Failed, false, delivery.Cancelled
	want.CompletedAt, want.NextAttemptAt = cancelled.CompletedAt, time.Time{}
	if diff := cmp.Diff(want, cancelled); diff != "" || cancelled.CompletedAt.Before(before) {
		t.Errorf("cancelled (-want +got):\n%s", diff)
	}
	// The attempt that was in flight meanwhile comes too late.
	b.wantLeft([]int{0}, outcomesOf(w, attempt(again, 200, milli(40_000), time.Time{})))
	for name, id := range map[string]signal.DeliveryID{"unknown": signal.NewDeliveryID(), "bad": "dlv_x", "empty": ""} {
		_, _, err = b.hooks.History.Delivery(ctx, b.account, w.ID, id)
		wantKind(t, name, err, signal.KindNotFound)
		_, err = b.hooks.Changes.RetryDelivery(ctx, b.account, w.ID, id)
		wantKind(t, name, err, signal.KindNotFound)
	}
	_, _, err = b.hooks.History.Delivery(ctx, accountIn(b.store, b.p), w.ID, d.ID)
	wantKind(t, "that of another account", err, signal.KindNotFound)

	b.must("remove", b.hooks.Settings.RemoveWebhook(ctx, b.account, w.ID))
	_, _, err = b.hooks.History.Delivery(ctx, b.account, w.ID, d.ID)
	wantKind(t, "that of a removed webhook", err, signal.KindNotFound)
	b.erase()
	b.wantNothingLeft()
}

// Of two outcomes of a delivery in one write, the first counts.
func TestTwoOutcomesOfADelivery(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	list := b.deliver(w, milli(0), milli(10))
	first, again := attempt(list[0], 200, milli(50), time.Time{}), attempt(list[1], 503, milli(50), milli(90))
	b.wantLeft([]int{1, 3}, outcomesOf(w, first, attempt(list[0], 503, milli(60), time.Time{}),
		again, attempt(list[1], 200, milli(60), time.Time{})))
	if a, b := b.stored(first), b.stored(again); a.Status != delivery.Succeeded || b.Status != delivery.Pending {
		t.Errorf("they are %s and %s", a.Status, b.Status)
	}
	for status, want := range map[delivery.Status]int{delivery.Pending: 1, delivery.Succeeded: 1, delivery.Failed: 0} {
		q := delivery.Query{Status: status, Limit: 9}
		if _, total, err := b.hooks.History.Deliveries(ctx, b.account, w.ID, q); total != want || err != nil {
			t.Errorf("%d are %s, %v; want %d", total, status, err, want)
		}
	}
	b.wantStats(delivery.WebhookStats{Pending: 1, Enabled: 1, OldestDue: milli(90)})
}

// TestSomeSuccessesAreStored: a write of first attempts that succeeded, some of whose deliveries are stored
// already or come twice.
func TestSomeSuccessesAreStored(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w := b.register()
	succeeded := func(d delivery.Delivery) delivery.Delivery { return attempt(d, 200, milli(50), time.Time{}) }
	body := func(d delivery.Delivery) []byte { return fmt.Append(nil, "body of ", d.Event) } // as of deliver
	stored := b.deliver(w, milli(0), milli(10), milli(20), milli(30))
	b.outcomes(w, succeeded(stored[3]))
	made, twice := testDelivery(w, signal.NewEventID(), milli(40)), testDelivery(w, signal.NewEventID(), milli(41))
	other, unknown := succeeded(stored[1]), succeeded(stored[2])
	other.WasDueAt, unknown.WasDueAt = milli(11), time.Time{}
	write := func(want []int, list ...delivery.Delivery) {
		t.Helper()
		out := outcomesOf(w, list...)
		for _, d := range list {
			out.Bodies = append(out.Bodies, body(d))
		}
		b.wantLeft(want, out)
	}
	write([]int{2, 4, 6}, succeeded(stored[0]), succeeded(made), other, unknown, succeeded(stored[3]), succeeded(twice),
		succeeded(twice))
	for status, want := range map[delivery.Status]int{delivery.Pending: 1, delivery.Succeeded: 5} {
		_, total, err := b.hooks.History.Deliveries(t.Context(), b.account, w.ID, delivery.Query{Status: status, Limit: 9})
		if total != want || err != nil {
			t.Errorf("%d are %s, %v; want %d", total, status, err, want)
		}
	}
	b.wantStats(delivery.WebhookStats{Pending: 1, Enabled: 1, OldestDue: milli(10)})
	write([]int{0, 1}, succeeded(made), succeeded(twice))
	for _, d := range append(stored, made, twice) {
		if _, got, err := b.hooks.History.Delivery(t.Context(), d.Account, d.Webhook, d.ID); string(got) != string(body(d)) {
			t.Errorf("the body of %s is %q, %v", d.ID, got, err)
		}
	}
	if refs := b.rdb.HGetAll(t.Context(), b.store.BodyRefsKey(b.p)).Val(); len(refs) > 0 {
		t.Errorf("bodies are shared: %q", refs)
	}
	b.must("remove", b.hooks.Settings.RemoveWebhook(t.Context(), b.account, w.ID))
	b.erase()
	b.wantNothingLeft()
}

func TestStoreDeliveriesInParts(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	one, two := b.register(), b.register()
	batch := make([]delivery.EventDeliveries, 2*stepDeliveries/2+50)
	for i := range batch {
		e := signal.NewEventID()
		at := milli(int64(i))
		batch[i] = deliveriesOf(e, string(e), testDelivery(one, e, at), testDelivery(two, e, at))[0]
	}
	last := &batch[len(batch)-1]
	good := last.Event
	last.Event = "of no known form"
	if err := b.hooks.Queue.StoreDeliveries(ctx, b.p, b.epoch, batch); err == nil {
		t.Error("a batch with a bad event is stored")
	}
	n := b.rdb.ZCard(ctx, b.store.RecordedKey(b.p, one.ID)).Val()
	if n < stepDeliveries/2 || n == int64(len(batch)) {
		t.Errorf("%d deliveries are stored, want only the first part", n)
	}
	last.Event = good
	for range 2 {
		b.must("store", b.hooks.Queue.StoreDeliveries(ctx, b.p, b.epoch, batch))
		b.wantStats(delivery.WebhookStats{Pending: int64(2 * len(batch)), Enabled: 2, OldestDue: milli(0)})
		if n := b.rdb.HLen(ctx, b.store.BodiesKey(b.p)).Val(); n != int64(len(batch)) {
			t.Errorf("%d bodies, want %d", n, len(batch))
		}
	}
	for _, w := range []*delivery.Webhook{one, two} {
		b.must("remove", b.hooks.Settings.RemoveWebhook(ctx, b.account, w.ID))
	}
	if steps := b.erase(); steps < 4 {
		t.Errorf("%d deliveries were dropped in %d steps", 2*len(batch), steps)
	}
	b.wantNothingLeft()
}

// One batch makes deliveries, removes their webhook and makes more.
func TestBatchSeesItsOwnChanges(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w := b.register()
	deliver := func() *eventlog.Operation {
		e := signal.NewEventID()
		o := eventlog.NewOperation(b.store.Keys)
		addDeliveries(o, b.p, deliveriesOf(e, string(e), testDelivery(w, e, milli(1000))))
		return o
	}
	remove := eventlog.NewOperation(b.store.Keys)
	remove.Step(eventlog.CmdHDel, remove.Key(b.store.WebhooksKey(b.p, b.account)), string(w.ID))
	b.together(deliver(), remove, deliver())
	if n := b.rdb.ZCard(t.Context(), b.store.PendingKey(b.p, w.ID)).Val(); n != 1 {
		t.Errorf("%d deliveries, want that from before the removal", n)
	}
}

// A webhook is not due for deliveries that a later operation of the same batch has ended or removed:
// it would be due for ever.
func TestBatchLeavesNoEndedDeliveryDue(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*hookBench, *eventlog.Operation, *delivery.Webhook, delivery.Delivery){
		"removed": func(b *hookBench, o *eventlog.Operation, w *delivery.Webhook, _ delivery.Delivery) {
			o.Step(eventlog.CmdHDel, o.Key(b.store.WebhooksKey(b.p, b.account)), string(w.ID))
			o.Step(eventlog.CmdUndue, eventlog.RefWebhooksDue, hook{b.store.Keys, b.p, b.account, w.ID}.member())
		},
		"delivered": func(b *hookBench, o *eventlog.Operation, w *delivery.Webhook, d delivery.Delivery) {
			out := outcomesOf(w, attempt(d, 200, milli(10), time.Time{}))
			addOutcomes(o, b.p, &out)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookBench(t)
			w, e := b.register(), signal.NewEventID()
			d := testDelivery(w, e, milli(1000))
			made, ended := eventlog.NewOperation(b.store.Keys), eventlog.NewOperation(b.store.Keys)
			addDeliveries(made, b.p, deliveriesOf(e, "body", d))
			end(b, ended, w, d)
			b.together(made, ended)
			if due := b.rdb.ZRange(t.Context(), b.store.WebhooksDueKey(b.p), 0, -1).Val(); len(due) > 0 {
				t.Errorf("due are %v", due)
			}
		})
	}
}

// A delivery that is pending again is not dropped with ended ones.
func TestPendingDeliveriesAreNotDropped(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w, e := b.register(), signal.NewEventID()
	d := testDelivery(w, e, milli(1000))
	b.must("store", b.hooks.Queue.StoreDeliveries(t.Context(), b.p, b.epoch, deliveriesOf(e, "body", d)))
	member, err := deliveryMember(d.ID, d.Type)
	b.must("name delivery", err)
	for _, which := range []string{dropEnded, "\xff\xff\xff\xff\xff\xff"} {
		at := hook{keys: b.store.Keys, p: b.p, id: w.ID}
		n, err := b.hooks.Retention.drop(t.Context(), at, b.epoch, which, []string{member})
		if n != 0 || err != nil {
			t.Errorf("%d are dropped by %q, %v", n, which, err)
		}
	}
	if n := b.rdb.HLen(t.Context(), b.store.DeliveriesKey(b.p, w.ID)).Val(); n != 1 {
		t.Errorf("%d records are left, want that of the pending one", n)
	}
}

// Operations of one batch that make deliveries of the same event share its body.
func TestBatchSharesBodies(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	e := signal.NewEventID()
	body := []byte("body of " + e)
	var all []*eventlog.Operation
	for range 3 {
		w := b.register()
		o := eventlog.NewOperation(b.store.Keys)
		out := outcomesOf(w, attempt(testDelivery(w, e, milli(0)), 200, milli(10), time.Time{}))
		out.Bodies = [][]byte{body}
		addOutcomes(o, b.p, &out)
		all = append(all, o)
	}
	b.together(all...)
	key, err := bodyKey(e, body)
	b.must("make key", err)
	if got := b.rdb.HGetAll(t.Context(), b.store.BodiesKey(b.p)).Val(); len(got) != 1 || got[key] != string(body) {
		t.Errorf("bodies %q", got)
	}
	if got := b.rdb.HGet(t.Context(), b.store.BodyRefsKey(b.p), key).Val(); got != "2" {
		t.Errorf("%q others have it, want 2", got)
	}
}

func TestPartOf(t *testing.T) {
	t.Parallel()
	event := func(deliveries, bytes int) delivery.EventDeliveries {
		return delivery.EventDeliveries{Body: make([]byte, bytes), Deliveries: make([]delivery.Delivery, deliveries)}
	}
	const half = stepDeliveries / 2
	full := event(stepDeliveries, stepBodies)
	for name, c := range map[string]struct {
		batch []delivery.EventDeliveries
		want  int
	}{
		"nothing":             {nil, 0},
		"one of any size":     {[]delivery.EventDeliveries{event(10*stepDeliveries, 10*stepBodies)}, 1},
		"as many as may be":   {[]delivery.EventDeliveries{event(half, 1), event(half, 1)}, 2},
		"one delivery more":   {[]delivery.EventDeliveries{event(half, 1), event(half+1, 1)}, 1},
		"one byte more":       {[]delivery.EventDeliveries{event(1, stepBodies), event(1, 1)}, 1},
		"one without is free": {[]delivery.EventDeliveries{full, event(0, 0), event(1, 0)}, 2},
	} {
		if got := partOf(c.batch); got != c.want {
			t.Errorf("%s: %d events, want %d", name, got, c.want)
		}
	}
}

func TestDueEndpoints(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	var want []delivery.EndpointDue
	for i := range 4 {
		w := b.register()
		b.deliver(w, milli(int64(100*i)+50), milli(int64(100*i)))
		want = append(want, delivery.EndpointDue{Account: b.account, Webhook: w.ID, At: milli(int64(100 * i))})
	}
	b.rdb.ZAdd(ctx, b.store.WebhooksDueKey(b.p), zAt(milli(-5), "damaged"))
	check := func(until time.Time, offset, limit int, want []delivery.EndpointDue) {
		t.Helper()
		got, err := b.hooks.Queue.DueEndpoints(ctx, b.p, until, offset, limit)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("until %v: %v (-want +got):\n%s", until, err, d)
		}
	}
	check(milli(200), 0, 10, want[:3])
	check(milli(200), 1, 1, want[1:2])
	check(milli(200), 3, 10, nil)
	check(milli(199), 0, 10, want[:2])
	check(milli(1000), 0, 10, want)
	wantPostponed(t, b.store.RDB, b.store.WebhooksDueKey(b.p), "damaged", milli(200))
}

func TestDueDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	list := b.deliver(w, milli(0), milli(10), milli(20), milli(30), milli(40))
	except := map[signal.DeliveryID]bool{}
	check := func(until time.Time, limit int, next time.Time, want ...delivery.Delivery) {
		t.Helper()
		b.wantDue(w, until, limit, except, next, want...)
	}
	check(milli(30), 10, milli(40), list[:4]...)
	check(milli(30), 2, milli(40), list[:2]...)
	check(milli(-1), 9, milli(0))
	except[list[0].ID] = true
	check(milli(40), 9, time.Time{}, list[1:]...)
	except[list[2].ID] = true
	check(milli(30), 2, milli(40), list[1], list[3])
	clear(except)

	// Those that cannot be sent hold up no other. Those without a record or a body are no
	// longer counted.
	b.rdb.HSet(ctx, b.store.DeliveriesKey(b.p, w.ID), deliveryField(list[0].ID), "damaged")
	b.rdb.HDel(ctx, b.store.DeliveriesKey(b.p, w.ID), deliveryField(list[1].ID))
	key, err := bodyKey(list[2].Event, []byte("body of "+list[2].Event))
	b.must("make key", err)
	b.rdb.HDel(ctx, b.store.BodiesKey(b.p), key)
	// The deliveries after them are read soon, though the page was full of them.
	soon := b.store.Now().Add(rereadAfter)
	due, next, err := b.hooks.Queue.DueDeliveries(ctx, b.p, b.account, w.ID, milli(30), 2, nil)
	if len(due) != 0 || err != nil || next.Before(soon) || next.After(b.store.Now().Add(rereadAfter)) {
		t.Errorf("%d due, the next at %v, %v; want none, and at %v", len(due), next, err, soon)
	}
	check(milli(30), 10, milli(40), list[3])
	b.wantStats(delivery.WebhookStats{Pending: 3, Enabled: 1, OldestDue: milli(30)})
	damaged, err := deliveryMember(list[0].ID, list[0].Type)
	b.must("make member", err)
	wantPostponed(t, b.store.RDB, b.store.PendingKey(b.p, w.ID), damaged, milli(30))
	// An attempt of one of them was in flight.
	b.outcomes(w, attempt(list[2], 200, milli(50), time.Time{}), attempt(list[3], 200, milli(50), time.Time{}))
	b.wantStats(delivery.WebhookStats{Pending: 2, Enabled: 1, OldestDue: milli(40)})
	// A reader that is late must not make a removed webhook due.
	b.deliver(w, milli(60))
	member, err := deliveryMember(list[4].ID, list[4].Type)
	b.must("make member", err)
	b.must("remove", b.hooks.Settings.RemoveWebhook(ctx, b.account, w.ID))
	b.must("drop", b.hooks.Queue.setAside(ctx, hook{b.store.Keys, b.p, b.account, w.ID}, member, time.Time{}, codec.ErrShort))
	if n := b.rdb.ZCard(ctx, b.store.WebhooksDueKey(b.p)).Val(); n != 0 {
		t.Errorf("%d webhooks are due, want none", n)
	}
}

// wantDue fails unless exactly the given deliveries of w are due, and the next one when wanted.
func (b *hookBench) wantDue(w *delivery.Webhook, until time.Time, limit int, except map[signal.DeliveryID]bool,
	wantNext time.Time, want ...delivery.Delivery) {
	b.Helper()
	due, next, err := b.hooks.Queue.DueDeliveries(b.Context(), b.p, b.account, w.ID, until, limit, except)
	if err != nil || !next.Equal(wantNext) {
		b.Errorf("next is due at %v, %v; want %v", next, err, wantNext)
	}
	var pending []delivery.PendingDelivery
	for _, d := range want {
		pending = append(pending, delivery.PendingDelivery{Delivery: d, Body: []byte("body of " + d.Event)})
	}
	wantEqual(b, "due", nil, pending, due)
}

// wantPages fails unless the pages of q have exactly the deliveries of want.
func (b *hookBench) wantPages(w *delivery.Webhook, q delivery.Query, want []delivery.Delivery) {
	b.Helper()
	var got, ids []signal.DeliveryID
	for q.Limit, q.Offset = 700, 0; q.Offset <= len(want); q.Offset += q.Limit {
		page, total, err := b.hooks.History.Deliveries(b.Context(), b.account, w.ID, q)
		if err != nil || total != len(want) {
			b.Fatalf("%+v: %d in all, %v; want %d", q, total, err, len(want))
		}
		for i := range page {
			got = append(got, page[i].ID)
		}
	}
	for i := range want {
		ids = append(ids, want[i].ID)
	}
	if d := cmp.Diff(ids, got); d != "" {
		b.Errorf("%+v (-want +got):\n%s", q, d)
	}
}

// prune drops what keep and retention allow, and returns in how many steps.
func (b *hookBench) prune(w *delivery.Webhook, retention time.Duration, keep int, keepBytes int64) (steps int) {
	b.Helper()
	for more := true; more; steps++ {
		var err error
		more, err = b.hooks.Retention.PruneDeliveries(b.Context(), b.p, b.epoch, w.ID, retention, keep, keepBytes)
		b.must("prune", err)
	}
	return steps
}

// TestManyDeliveries has more deliveries of a webhook than one command, script or operation takes,
// most of them of one millisecond.
func TestManyDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w, other := b.register(), b.register()
	b.deliver(other, milli(0))
	at := make([]time.Time, 2400)
	for i := range at {
		if at[i] = milli(int64(i)); i >= 100 && i < 2300 {
			at[i] = milli(1000)
		}
	}
	list := b.deliver(w, at...)
	slices.SortFunc(list, func(a, b delivery.Delivery) int { // newest first
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(b.ID), string(a.ID))
	})
	pages := func(q delivery.Query, want []delivery.Delivery) {
		t.Helper()
		b.wantPages(w, q, want)
	}
	cancelAll := func(want int) {
		t.Helper()
		if n, err := b.hooks.Changes.CancelDeliveries(ctx, b.account, w.ID); n != want || err != nil {
			t.Errorf("%d are cancelled, %v; want %d", n, err, want)
		}
	}
	retry := func(what string, want int, q delivery.RetryQuery) {
		t.Helper()
		q.Status = delivery.Failed
		for _, q.DryRun = range []bool{true, false} {
			if n, err := b.hooks.Changes.RetryDeliveries(ctx, b.account, w.ID, q); n != want || err != nil {
				t.Errorf("%s: %d are retried (dry run %v), %v; want %d", what, n, q.DryRun, err, want)
			}
		}
	}
	pages(delivery.Query{}, list)
	pages(delivery.Query{Status: delivery.Pending}, list)
	pages(delivery.Query{Status: delivery.Pending, Type: signal.SignalCreated}, list)
	pages(delivery.Query{Type: signal.WebhookTest}, nil)

	cancelAll(2400)
	cancelAll(0)
	retry("before the first", 0, delivery.RetryQuery{Until: milli(0)})
	retry("up to a time", 50, delivery.RetryQuery{Until: milli(50)})
	retry("between two times", 25, delivery.RetryQuery{Since: milli(50), Until: milli(75)})
	retry("from a time on", 50, delivery.RetryQuery{Since: milli(2350)})
	retry("of one millisecond", 2200, delivery.RetryQuery{Since: milli(1000), Until: milli(1001)})
	pages(delivery.Query{Status: delivery.Failed}, slices.Concat(list[50:100], list[2300:2325]))
	retry("the rest", 75, delivery.RetryQuery{})
	pages(delivery.Query{Status: delivery.Pending}, list)
	b.wantStats(delivery.WebhookStats{Pending: 2401, Enabled: 2, OldestDue: milli(0)})

	cancelAll(2400)
	_, err := b.hooks.Changes.RetryDelivery(ctx, b.account, w.ID, list[0].ID)
	b.must("retry", err)
	if steps := b.prune(w, time.Hour, 1300, 0); steps < 4 {
		t.Errorf("pruned in %d steps", steps)
	}
	pages(delivery.Query{}, list[:1301])
	// By age it takes one call, which keeps what ended later than it was created.
	if steps := b.prune(w, time.Minute, 1300, 0); steps != 1 {
		t.Errorf("pruned by age in %d steps", steps)
	}
	pages(delivery.Query{}, list[:1301]) // they have ended just now
	if steps := b.prune(w, -time.Minute, 1300, 0); steps != 1 {
		t.Errorf("pruned by age in %d steps", steps)
	}
	pages(delivery.Query{}, list[:1])

	for _, w := range []*delivery.Webhook{w, other} {
		b.must("remove", b.hooks.Settings.RemoveWebhook(ctx, b.account, w.ID))
	}
	pages(delivery.Query{}, nil)
	b.erase()
	b.wantNothingLeft()
}
