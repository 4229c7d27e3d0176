package webhook

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// madeNow returns a new delivery that is in flight.
func madeNow(id signal.DeliveryID) *item {
	d := &item{event: &inFlightEvent{}, PendingDelivery: delivery.PendingDelivery{Delivery: delivery.Delivery{ID: id}}}
	d.event.count.Store(1)
	return d
}

func TestBacklogRoutesNewDeliveries(t *testing.T) {
	t.Parallel()
	stored := madeNow("dlv_stored")
	stored.pending.Store(true)
	caughtUp := func(b *backlog) { b.catchUp(&pageRead{}, time.Now()) }
	hasMore := func(b *backlog) { b.catchUp(&pageRead{full: true}, time.Now()) }
	tests := []struct {
		name       string
		before     func(b *backlog)
		item       *item
		recovering bool
		want       route
	}{
		{"all of Redis is known", caughtUp, madeNow("dlv_1"), false, routeSend},
		{"the first page was not read yet", func(*backlog) {}, madeNow("dlv_1"), false, routeSend},
		{"Redis has more than a page", hasMore, madeNow("dlv_1"), false, routeBack},
		{"the same, of a recovering endpoint", hasMore, madeNow("dlv_1"), true, routeSend},
		{"it is being stored", caughtUp, stored, false, routeRead},
		{"it is being stored, and held", func(b *backlog) { b.held[stored.ID] = true }, stored, false, routeKnown},
	}
	for _, test := range tests {
		b := newBacklog()
		b.wanted = false
		test.before(&b)
		if got := b.routeNew(test.item, func() bool { return test.recovering }); got != test.want {
			t.Errorf("%s: route %d, want %d", test.name, got, test.want)
		}
	}
}

// No page is read before a delivery that was given back is stored: it might have later
// deliveries, but not this one.
func TestBacklogWaitsUntilDeliveriesAreStored(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	d := madeNow("dlv_1")
	b.giveBack(d)
	b.sortUnsaved()
	if _, ok := b.beginRead(); ok {
		t.Error("a page is read before the delivery is stored")
	}
	if !b.noteStored(d) {
		t.Error("it is not wanted when it is stored")
	}
	except, ok := b.beginRead()
	if !ok || len(except) != 0 {
		t.Errorf("beginRead returned %v, %v", except, ok)
	}
	if _, ok := b.beginRead(); ok {
		t.Error("two pages are read at once")
	}
}

// A page may contain the former state of a delivery that is stored during the read.
func TestBacklogSkipsDeliveriesStoredMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	b.held["dlv_1"] = true
	b.beginRead()
	b.drop("dlv_1")
	if !b.endRead() {
		t.Fatal("the page is not used")
	}
	page := []delivery.PendingDelivery{
		{Delivery: delivery.Delivery{ID: "dlv_1"}},
		{Delivery: delivery.Delivery{ID: "dlv_2"}},
	}
	items := b.addPage(&pageRead{due: page})
	if len(items) != 1 || items[0].ID != "dlv_2" || b.holds("dlv_1") || !b.holds("dlv_2") {
		t.Errorf("added %d deliveries, held are %v", len(items), b.held)
	}
}

func TestOutcomesAreWrittenOneWriteAtATime(t *testing.T) {
	t.Parallel()
	changed, now := newWaits(), time.Now()
	var r outcomes
	if linger, write := r.prepare(now, &changed); linger != 0 || write {
		t.Errorf("nothing waits: linger %v, write %v", linger, write)
	}
	r.add(delivery.Delivery{ID: "dlv_1"}, &item{})
	if _, write := r.prepare(now, &changed); !write {
		t.Error("the first write does not begin at once")
	}
	if o := r.beginWrite(); len(o.Deliveries) != 1 {
		t.Errorf("%d deliveries are written", len(o.Deliveries))
	}
	r.add(delivery.Delivery{ID: "dlv_2"}, &item{})
	if linger, write := r.prepare(now, &changed); linger != 0 || write {
		t.Errorf("a write is in flight: linger %v, write %v", linger, write)
	}
	r.endWrite()
	const soon = 10 * time.Millisecond
	if linger, write := r.prepare(now.Add(soon), &changed); linger != storeEvery-soon || write {
		t.Errorf("soon after a write: linger %v, write %v", linger, write)
	}
	if linger, _ := r.prepare(now.Add(11*time.Millisecond), &changed); linger != 0 {
		t.Errorf("it lingers already, but linger is %v", linger)
	}
	if _, write := r.prepare(now.Add(storeEvery), &changed); !write {
		t.Error("no write begins after a while")
	}
}
