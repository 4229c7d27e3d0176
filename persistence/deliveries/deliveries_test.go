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
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// A delivery's life: made, tried, given up, asked for again, cancelled.
func TestDeliveryFromBeginToEnd(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	d := b.deliver(w, milli(1000))[0]
	d.WasDueAt = time.Time{}
	got, body, err := b.hooks.Delivery(ctx, b.account, w.ID, d.ID)
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
	// The same again is left out, and so is an outcome of the attempt before.
	left, err := b.hooks.StoreOutcomes(ctx, b.p, b.epoch, delivery.Outcomes{Account: b.account, Webhook: w.ID, Deliveries: []delivery.Delivery{d, d}})
	if diff := cmp.Diff([]int{0, 1}, left); diff != "" || err != nil {
		t.Errorf("repeated: %v (-want +got):\n%s", err, diff)
	}

	_, err = b.hooks.CancelDelivery(ctx, b.account, w.ID, d.ID)
	wantError(t, err, signal.KindConflict, "delivery_not_pending")
	events := len(b.eventsOf(b.account))
	before := b.store.Now().Truncate(time.Millisecond)
	again, err := b.hooks.RetryDelivery(ctx, b.account, w.ID, d.ID)
	b.must("retry", err)
	want.Status, want.Single, want.CompletedAt, want.NextAttemptAt = delivery.Pending, true, time.Time{}, again.NextAttemptAt
	if diff := cmp.Diff(want, again); diff != "" || again.NextAttemptAt.Before(before) {
		t.Errorf("asked for again (-want +got):\n%s", diff)
	}
	if e := b.eventsOf(b.account)[events:]; len(e) != 1 || e[0].Type != signal.WebhookPoked || e[0].Subject != string(w.ID) {
		t.Errorf("announced %+v", e)
	}
	_, err = b.hooks.RetryDelivery(ctx, b.account, w.ID, d.ID)
	wantError(t, err, signal.KindConflict, "delivery_not_failed")
	cancelled, err := b.hooks.CancelDelivery(ctx, b.account, w.ID, d.ID)
	b.must("cancel", err)
	if cancelled.Status != delivery.Failed || cancelled.Error != delivery.Cancelled || cancelled.Single || cancelled.CompletedAt.Before(before) ||
		!cancelled.NextAttemptAt.IsZero() || len(cancelled.Attempts) != 2 {
		t.Errorf("cancelled: %+v", cancelled)
	}
	// The attempt that was under way meanwhile comes too late.
	late := attempt(again, 200, milli(40_000), time.Time{})
	left, err = b.hooks.StoreOutcomes(ctx, b.p, b.epoch, delivery.Outcomes{Account: b.account, Webhook: w.ID, Deliveries: []delivery.Delivery{late}})
	if diff := cmp.Diff([]int{0}, left); diff != "" || err != nil {
		t.Errorf("too late: %v (-want +got):\n%s", err, diff)
	}
	for name, id := range map[string]signal.DeliveryID{"no such": signal.NewDeliveryID(), "no identifier": "dlv_x", "empty": ""} {
		_, _, err = b.hooks.Delivery(ctx, b.account, w.ID, id)
		wantKind(t, name, err, signal.KindNotFound)
		_, err = b.hooks.RetryDelivery(ctx, b.account, w.ID, id)
		wantKind(t, name, err, signal.KindNotFound)
	}
	_, _, err = b.hooks.Delivery(ctx, accountIn(b.store, b.p), w.ID, d.ID)
	wantKind(t, "that of another account", err, signal.KindNotFound)

	b.must("remove", b.hooks.RemoveWebhook(ctx, b.account, w.ID))
	_, _, err = b.hooks.Delivery(ctx, b.account, w.ID, d.ID)
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
	all := []delivery.Delivery{first, attempt(list[0], 503, milli(60), time.Time{}), again, attempt(list[1], 200, milli(60), time.Time{})}
	left, err := b.hooks.StoreOutcomes(ctx, b.p, b.epoch, delivery.Outcomes{Account: b.account, Webhook: w.ID, Deliveries: all})
	if diff := cmp.Diff([]int{1, 3}, left); diff != "" || err != nil {
		t.Errorf("left out: %v (-want +got):\n%s", err, diff)
	}
	if a, b := b.stored(first), b.stored(again); a.Status != delivery.Succeeded || b.Status != delivery.Pending {
		t.Errorf("they are %s and %s", a.Status, b.Status)
	}
	for status, want := range map[delivery.Status]int{delivery.Pending: 1, delivery.Succeeded: 1, delivery.Failed: 0} {
		if _, total, err := b.hooks.Deliveries(ctx, b.account, w.ID, delivery.Query{Status: status, Limit: 9}); total != want || err != nil {
			t.Errorf("%d are %s, %v; want %d", total, status, err, want)
		}
	}
	if stats, err := b.hooks.WebhookStats(ctx); stats.Pending != 1 || !stats.OldestDue.Equal(milli(90)) || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
}

func TestStoreDeliveriesInParts(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	one, two := b.register(), b.register()
	batch := make([]delivery.EventDeliveries, 2*stepDeliveries/2+50)
	for i := range batch {
		e := signal.NewEventID()
		batch[i] = delivery.EventDeliveries{Event: e, Body: fmt.Append(nil, e), Deliveries: []delivery.Delivery{testDelivery(one, e, milli(int64(i))), testDelivery(two, e, milli(int64(i)))}}
	}
	last := &batch[len(batch)-1]
	good := last.Event
	last.Event = "of no known form"
	if err := b.hooks.StoreDeliveries(ctx, b.p, b.epoch, batch); err == nil {
		t.Error("a batch with a bad event is stored")
	}
	if n := b.rdb.ZCard(ctx, redisclient.RecordedKey(b.p, one.ID)).Val(); n < stepDeliveries/2 || n == int64(len(batch)) {
		t.Errorf("%d deliveries are stored, want only the first part", n)
	}
	last.Event = good
	for range 2 {
		b.must("store", b.hooks.StoreDeliveries(ctx, b.p, b.epoch, batch))
		if stats, err := b.hooks.WebhookStats(ctx); stats.Pending != int64(2*len(batch)) || err != nil {
			t.Errorf("counts %+v, %v, want %d pending", stats, err, 2*len(batch))
		}
		if n := b.rdb.HLen(ctx, redisclient.BodiesKey(b.p)).Val(); n != int64(len(batch)) {
			t.Errorf("%d bodies, want %d", n, len(batch))
		}
	}
	for _, w := range []*delivery.Webhook{one, two} {
		b.must("remove", b.hooks.RemoveWebhook(ctx, b.account, w.ID))
	}
	if steps := b.erase(); steps < 4 {
		t.Errorf("%d deliveries were dropped in %d steps", 2*len(batch), steps)
	}
	b.wantNothingLeft()
}

// One batch makes deliveries, removes their webhook and makes more.
func TestABatchSeesItsOwnChanges(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w := b.register()
	deliver := func() *eventlog.Operation {
		e := signal.NewEventID()
		o := eventlog.NewOperation()
		AddDeliveries(o, b.p, []delivery.EventDeliveries{{Event: e, Body: fmt.Append(nil, e), Deliveries: []delivery.Delivery{testDelivery(w, e, milli(1000))}}})
		return o
	}
	remove := eventlog.NewOperation()
	remove.Step(eventlog.CmdHDel, remove.Key(redisclient.WebhooksKey(b.p, b.account)), string(w.ID))
	before, after := deliver(), deliver()
	carryOutTogether(t, b.rdb, b.p, before, remove, after)
	for _, o := range []*eventlog.Operation{before, remove, after} {
		if r := <-o.Done; r.Err != nil {
			t.Error(r.Err)
		}
	}
	if n := b.rdb.ZCard(t.Context(), redisclient.PendingKey(b.p, w.ID)).Val(); n != 1 {
		t.Errorf("%d deliveries, want that from before the removal", n)
	}
}

// A webhook is not due for what a later operation of the same batch has ended or removed:
// nobody would find anything to do, nor remove it.
func TestABatchLeavesNothingDueThatHasEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *hookBench, o *eventlog.Operation, w *delivery.Webhook, d delivery.Delivery){
		"removed": func(b *hookBench, o *eventlog.Operation, w *delivery.Webhook, _ delivery.Delivery) {
			o.Step(eventlog.CmdHDel, o.Key(redisclient.WebhooksKey(b.p, b.account)), string(w.ID))
			o.Step(eventlog.CmdUndue, eventlog.RefWebhooksDue, hook{b.p, b.account, w.ID}.member())
		},
		"delivered": func(b *hookBench, o *eventlog.Operation, w *delivery.Webhook, d delivery.Delivery) {
			addOutcomes(o, b.p, &delivery.Outcomes{Account: b.account, Webhook: w.ID, Deliveries: []delivery.Delivery{attempt(d, 200, milli(10), time.Time{})}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookBench(t)
			w, e := b.register(), signal.NewEventID()
			d := testDelivery(w, e, milli(1000))
			made, ended := eventlog.NewOperation(), eventlog.NewOperation()
			AddDeliveries(made, b.p, []delivery.EventDeliveries{{Event: e, Body: []byte("body"), Deliveries: []delivery.Delivery{d}}})
			end(b, ended, w, d)
			carryOutTogether(t, b.rdb, b.p, made, ended)
			for _, o := range []*eventlog.Operation{made, ended} {
				if r := <-o.Done; r.Err != nil {
					t.Error(r.Err)
				}
			}
			if due := b.rdb.ZRange(t.Context(), redisclient.WebhooksDueKey(b.p), 0, -1).Val(); len(due) > 0 {
				t.Errorf("due are %v", due)
			}
		})
	}
}

// A delivery that is tried again while those of the past are dropped is not of the past.
func TestPendingDeliveriesAreNotOfThePast(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	w, e := b.register(), signal.NewEventID()
	d := testDelivery(w, e, milli(1000))
	b.must("store", b.hooks.StoreDeliveries(t.Context(), b.p, b.epoch, []delivery.EventDeliveries{{Event: e, Body: []byte("body"), Deliveries: []delivery.Delivery{d}}}))
	member, err := deliveryMember(d.ID, d.Type)
	b.must("name delivery", err)
	for _, which := range []string{dropEnded, "\xff\xff\xff\xff\xff\xff"} {
		if n, err := dropDeliveries(t.Context(), b.store.Client, hook{p: b.p, id: w.ID}, b.epoch, which, []string{member}); n != 0 || err != nil {
			t.Errorf("%d are dropped by %q, %v", n, which, err)
		}
	}
	if n := b.rdb.HLen(t.Context(), redisclient.DeliveriesKey(b.p, w.ID)).Val(); n != 1 {
		t.Errorf("%d records are left, want that of the pending one", n)
	}
}

// Operations of one batch that make deliveries of the same event share its body.
func TestABatchSharesBodies(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	e := signal.NewEventID()
	body := []byte("body of " + e)
	var all []*eventlog.Operation
	for range 3 {
		w := b.register()
		o := eventlog.NewOperation()
		addOutcomes(o, b.p, &delivery.Outcomes{Account: b.account, Webhook: w.ID, Bodies: [][]byte{body},
			Deliveries: []delivery.Delivery{attempt(testDelivery(w, e, milli(0)), 200, milli(10), time.Time{})}})
		all = append(all, o)
	}
	carryOutTogether(t, b.rdb, b.p, all...)
	for _, o := range all {
		if r := <-o.Done; r.Err != nil || r.Left != nil {
			t.Errorf("%+v", r)
		}
	}
	key, err := bodyKey(e, body)
	b.must("make key", err)
	if got := b.rdb.HGetAll(t.Context(), redisclient.BodiesKey(b.p)).Val(); len(got) != 1 || got[key] != string(body) {
		t.Errorf("bodies %q", got)
	}
	if got := b.rdb.HGet(t.Context(), redisclient.BodyRefsKey(b.p), key).Val(); got != "2" {
		t.Errorf("%q others have it, want 2", got)
	}
}

func TestPartOf(t *testing.T) {
	t.Parallel()
	event := func(deliveries, bytes int) delivery.EventDeliveries {
		return delivery.EventDeliveries{Body: make([]byte, bytes), Deliveries: make([]delivery.Delivery, deliveries)}
	}
	for name, c := range map[string]struct {
		batch []delivery.EventDeliveries
		want  int
	}{
		"nothing":             {nil, 0},
		"one of any size":     {[]delivery.EventDeliveries{event(10*stepDeliveries, 10*stepBodies)}, 1},
		"as many as may be":   {[]delivery.EventDeliveries{event(stepDeliveries/2, 1), event(stepDeliveries/2, 1)}, 2},
		"one delivery more":   {[]delivery.EventDeliveries{event(stepDeliveries/2, 1), event(stepDeliveries/2+1, 1)}, 1},
		"one byte more":       {[]delivery.EventDeliveries{event(1, stepBodies), event(1, 1)}, 1},
		"one without is free": {[]delivery.EventDeliveries{event(stepDeliveries, stepBodies), event(0, 0), event(1, 0)}, 2},
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
	b.rdb.ZAdd(ctx, redisclient.WebhooksDueKey(b.p), zAt(milli(-5), "damaged"))
	check := func(until time.Time, offset, limit int, want []delivery.EndpointDue) {
		t.Helper()
		got, err := b.hooks.DueEndpoints(ctx, b.p, until, offset, limit)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("until %v: %v (-want +got):\n%s", until, err, d)
		}
	}
	check(milli(200), 0, 10, want[:3])
	check(milli(200), 1, 1, want[1:2])
	check(milli(200), 3, 10, nil)
	check(milli(199), 0, 10, want[:2])
	check(milli(1000), 0, 10, want)
	wantPostponed(t, b.store, redisclient.WebhooksDueKey(b.p), "damaged", milli(200))
}

func TestDueDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w := b.register()
	list := b.deliver(w, milli(0), milli(10), milli(20), milli(30), milli(40))
	read := func(until time.Time, limit int, wantNext time.Time, except ...signal.DeliveryID) []delivery.PendingDelivery {
		t.Helper()
		passed := map[signal.DeliveryID]bool{}
		for _, id := range except {
			passed[id] = true
		}
		due, next, err := b.hooks.DueDeliveries(ctx, b.p, b.account, w.ID, until, limit, passed)
		if err != nil || !next.Equal(wantNext) {
			t.Errorf("next is due at %v, %v; want %v", next, err, wantNext)
		}
		return due
	}
	check := func(got []delivery.PendingDelivery, want ...delivery.Delivery) {
		t.Helper()
		var pending []delivery.PendingDelivery
		for _, d := range want {
			pending = append(pending, delivery.PendingDelivery{Delivery: d, Body: []byte("body of " + d.Event)})
		}
		if d := cmp.Diff(pending, got); d != "" {
			t.Errorf("due (-want +got):\n%s", d)
		}
	}
	check(read(milli(30), 10, milli(40)), list[:4]...)
	check(read(milli(30), 2, milli(40)), list[:2]...)
	check(read(milli(30), 2, milli(40), list[0].ID, list[2].ID), list[1], list[3])
	check(read(milli(40), 9, time.Time{}, list[0].ID), list[1:]...)
	check(read(milli(-1), 9, milli(0)))

	// What cannot be sent holds up no other; what has no record or no body is
	// counted no more.
	b.rdb.HSet(ctx, redisclient.DeliveriesKey(b.p, w.ID), deliveryField(list[0].ID), "damaged")
	b.rdb.HDel(ctx, redisclient.DeliveriesKey(b.p, w.ID), deliveryField(list[1].ID))
	key, err := bodyKey(list[2].Event, []byte("body of "+list[2].Event))
	b.must("make key", err)
	b.rdb.HDel(ctx, redisclient.BodiesKey(b.p), key)
	// What is behind them is read soon, though the page was full of them.
	soon := b.store.Now().Add(rereadAfter)
	due, next, err := b.hooks.DueDeliveries(ctx, b.p, b.account, w.ID, milli(30), 2, nil)
	if len(due) != 0 || err != nil || next.Before(soon) || next.After(b.store.Now().Add(rereadAfter)) {
		t.Errorf("%d due, the next at %v, %v; want none, and at %v", len(due), next, err, soon)
	}
	check(read(milli(30), 10, milli(40)), list[3])
	if stats, err := b.hooks.WebhookStats(ctx); stats.Pending != 3 || !stats.OldestDue.Equal(milli(30)) || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
	damaged, err := deliveryMember(list[0].ID, list[0].Type)
	b.must("make member", err)
	wantPostponed(t, b.store, redisclient.PendingKey(b.p, w.ID), damaged, milli(30))
	// The attempt of one of them was under way.
	b.outcomes(w, attempt(list[2], 200, milli(50), time.Time{}), attempt(list[3], 200, milli(50), time.Time{}))
	if stats, err := b.hooks.WebhookStats(ctx); stats.Pending != 2 || !stats.OldestDue.Equal(milli(40)) || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}
	// A reader that is late must not bring a removed webhook back.
	b.deliver(w, milli(60))
	member, err := deliveryMember(list[4].ID, list[4].Type)
	b.must("make member", err)
	b.must("remove", b.hooks.RemoveWebhook(ctx, b.account, w.ID))
	b.must("drop", b.hooks.setAside(ctx, hook{b.p, b.account, w.ID}, member, time.Time{}, codec.ErrShort))
	if n := b.rdb.ZCard(ctx, redisclient.WebhooksDueKey(b.p)).Val(); n != 0 {
		t.Errorf("%d webhooks are due, want none", n)
	}
}

// TestManyDeliveries has more of a webhook than one command, script or operation takes,
// most of them of one millisecond.
func TestManyDeliveries(t *testing.T) {
	t.Parallel()
	b := newHookBench(t)
	ctx := t.Context()
	w, other := b.register(), b.register()
	b.deliver(other, milli(0))
	at := make([]time.Time, 2400)
	for i := range at {
		at[i] = milli(1000) // of which there are 2,200
		if i < 100 {
			at[i] = milli(int64(i))
		} else if i >= 2300 {
			at[i] = milli(int64(i))
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
		var got []signal.DeliveryID
		for q.Limit, q.Offset = 700, 0; q.Offset <= len(want); q.Offset += q.Limit {
			page, total, err := b.hooks.Deliveries(ctx, b.account, w.ID, q)
			if err != nil || total != len(want) {
				t.Fatalf("%+v: %d in all, %v; want %d", q, total, err, len(want))
			}
			for i := range page {
				got = append(got, page[i].ID)
			}
		}
		var ids []signal.DeliveryID
		for i := range want {
			ids = append(ids, want[i].ID)
		}
		if d := cmp.Diff(ids, got); d != "" {
			t.Errorf("%+v (-want +got):\n%s", q, d)
		}
	}
	count := func(what string, want int, do func() (int, error)) {
		t.Helper()
		if n, err := do(); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", what, n, err, want)
		}
	}
	retry := func(what string, want int, q delivery.RetryQuery) {
		t.Helper()
		q.Status, q.DryRun = delivery.Failed, true
		count(what+" (dry run)", want, func() (int, error) { return b.hooks.RetryDeliveries(ctx, b.account, w.ID, q) })
		q.DryRun = false
		count(what, want, func() (int, error) { return b.hooks.RetryDeliveries(ctx, b.account, w.ID, q) })
	}
	pages(delivery.Query{}, list)
	pages(delivery.Query{Status: delivery.Pending}, list)
	pages(delivery.Query{Status: delivery.Pending, Type: signal.SignalCreated}, list)
	pages(delivery.Query{Type: signal.WebhookTest}, nil)

	count("cancel all", 2400, func() (int, error) { return b.hooks.CancelDeliveries(ctx, b.account, w.ID) })
	count("cancel all again", 0, func() (int, error) { return b.hooks.CancelDeliveries(ctx, b.account, w.ID) })
	retry("before the first", 0, delivery.RetryQuery{Until: milli(0)})
	retry("up to a time", 50, delivery.RetryQuery{Until: milli(50)})
	retry("between two times", 25, delivery.RetryQuery{Since: milli(50), Until: milli(75)})
	retry("from a time on", 50, delivery.RetryQuery{Since: milli(2350)})
	retry("of one millisecond", 2200, delivery.RetryQuery{Since: milli(1000), Until: milli(1001)})
	pages(delivery.Query{Status: delivery.Failed}, slices.Concat(list[50:100], list[2300:2325]))
	retry("the rest", 75, delivery.RetryQuery{})
	pages(delivery.Query{Status: delivery.Pending}, list)
	if stats, err := b.hooks.WebhookStats(ctx); stats.Pending != 2401 || err != nil {
		t.Errorf("counts %+v, %v", stats, err)
	}

	count("cancel all", 2400, func() (int, error) { return b.hooks.CancelDeliveries(ctx, b.account, w.ID) })
	b.retryOne(w, list[0])
	steps := 1
	for more := true; more; steps++ {
		var err error
		more, err = b.hooks.PruneDeliveries(ctx, b.p, b.epoch, w.ID, time.Hour, 1300, 0)
		b.must("prune", err)
	}
	if steps < 5 {
		t.Errorf("pruned in %d steps", steps)
	}
	pages(delivery.Query{}, list[:1301])
	// By age it takes one call, and passes over what ended later than it was created.
	if more, err := b.hooks.PruneDeliveries(ctx, b.p, b.epoch, w.ID, time.Minute, 1300, 0); more || err != nil {
		t.Errorf("prune by age: %v, %v", more, err)
	}
	pages(delivery.Query{}, list[:1301]) // they have ended just now
	if more, err := b.hooks.PruneDeliveries(ctx, b.p, b.epoch, w.ID, -time.Minute, 1300, 0); more || err != nil {
		t.Errorf("prune by age: %v, %v", more, err)
	}
	pages(delivery.Query{}, list[:1])

	for _, w := range []*delivery.Webhook{w, other} {
		b.must("remove", b.hooks.RemoveWebhook(ctx, b.account, w.ID))
	}
	pages(delivery.Query{}, nil)
	b.erase()
	b.wantNothingLeft()
}

func (b *hookBench) retryOne(w *delivery.Webhook, d delivery.Delivery) {
	b.Helper()
	_, err := b.hooks.RetryDelivery(b.Context(), b.account, w.ID, d.ID)
	b.must("retry", err)
}
