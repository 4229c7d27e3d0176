package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// listener is an actor in place of the partition's webhooks.
type listener struct {
	mu    sync.Mutex
	heard []string
	items []*item // of new deliveries
}

func (l *listener) Receive(c engine.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := c.Message().(type) {
	case deliveriesMade:
		for _, b := range m.batches {
			for _, d := range b.items {
				l.heard = append(l.heard, fmt.Sprintf("%s for %s", d.Event, b.id))
				l.items = append(l.items, d)
			}
		}
	case deliveriesStored:
		for _, b := range m.batches {
			for _, d := range b.items {
				l.heard = append(l.heard, fmt.Sprintf("%s for %s is stored", d.Event, b.id))
			}
		}
	case webhookChanged:
		l.heard = append(l.heard, fmt.Sprintf("%s changed", m.id))
	case webhookDeliveriesChanged:
		l.heard = append(l.heard, fmt.Sprintf("deliveries of %s changed", m.id))
	case accountDeleted:
		l.heard = append(l.heard, fmt.Sprintf("%s deleted", m.id))
	}
}

// told checks what the webhooks were told since the last call.
func (l *listener) told(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.heard); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	l.heard = nil
}

// recording returns a world with a Recorder and nothing else.
func recording(t *testing.T) (*world, *listener) {
	w, l := newWorld(t), &listener{}
	w.recorder = newRecorder(&owned{Node: w.node, Owned: ownership.Owned{Epoch: 1}, log: w.node.log})
	w.recorder.parent = w.system.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return l }, engine.Supervision{})
	t.Cleanup(w.stop)
	return w, l
}

// events returns what was appended to the log since the last call.
func (w *world) events() (events []signal.Event) {
	w.store.set(func() { events, w.read = w.store.log[w.read:], len(w.store.log) })
	return events
}

func (w *world) record(events []signal.Event) {
	w.t.Helper()
	if err := w.recorder.Record(w.t.Context(), events); err != nil {
		w.t.Fatal(err)
	}
}

// begin has the Recorder begin: what is in the log so far was an owner's before it.
func (l *listener) begin(w *world) {
	w.t.Helper()
	w.record(w.events())
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = nil
}

// storeInFlight has all stored that is open.
func (w *world) storeInFlight() {
	w.t.Helper()
	if err := w.recorder.storeInFlight(w.t.Context(), time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

func TestRecordForWhoeverIsSubscribed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		all := w.register(func(h *delivery.Webhook) { h.Events = delivery.WebhookEvents })
		created := w.register()
		old := w.register(func(h *delivery.Webhook) { h.APIVersion = "2025-01-01" })
		w.register(func(h *delivery.Webhook) { h.Status = delivery.WebhookDisabled })
		w.register(func(h *delivery.Webhook) { h.Account = signal.NewAccountID() })
		l.begin(w)
		for _, typ := range []signal.EventType{signal.SignalCreated, signal.SignalClosed, signal.SystemNotification, signal.KeyRevoked} {
			w.store.set(func() {
				w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: typ, Data: []byte(`{}`)})
			})
		}
		w.store.set(func() {
			w.store.append(signal.Event{ID: signal.NewEventID(), Account: signal.NewAccountID(), Type: signal.SignalCreated, Data: []byte(`{}`)})
		})
		events := w.events()
		w.record(events)
		first, second := events[0].ID, events[1].ID
		l.told(t, fmt.Sprintf("%s for %s", first, old), fmt.Sprintf("%s for %s", first, created),
			fmt.Sprintf("%s for %s", first, all), fmt.Sprintf("%s for %s", second, all))
		if w.store.kept != nil {
			t.Errorf("stored %v before anything was sent", w.store.kept)
		}
		w.storeInFlight()
		// One body of each version of each event.
		if d := cmp.Diff([]storedPage{{Bodies: 3, Deliveries: 4}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		for id, version := range map[signal.WebhookID]string{all: "2026-11-01", created: "2026-11-01", old: "2025-01-01"} {
			d := w.store.deliveries[signal.DeliveryIDOf(first, id)]
			want := AppendBody(nil, first, signal.SignalCreated, version, events[0].Time(), []byte(`{}`))
			if d := cmp.Diff(string(want), string(d.Body)); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
			if d.Status != delivery.Pending || !d.NextAttemptAt.Equal(events[0].Time()) || d.Account != w.account {
				t.Errorf("stored %+v", d.Delivery)
			}
		}
	})
}

func TestRecordNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.emit(3)
		w.record(w.events())
		l.told(t)
		if n := w.store.count("StoreDeliveries") + w.store.count("Webhooks"); n != 0 {
			t.Errorf("%d questions for an account without webhooks", n)
		}
	})
}

// What an owner before may have made is stored and not told: whatever was sent of it
// already is there. A write that fails is repeated with all of its events: none is told
// twice, even if the write that failed was carried out.
func TestRecordWhatAnOwnerBeforeHasMade(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l := recording(t)
			id := w.register()
			w.events()
			w.emit(maxRecord + 10) // two writes, of which the second fails
			events := w.events()
			sent := signal.DeliveryIDOf(events[0].ID, id)
			w.store.deliveries[sent] = &delivery.PendingDelivery{Delivery: delivery.Delivery{ID: sent, Webhook: id, Status: delivery.Succeeded}}
			w.store.fail = func(op string) (error, bool) {
				if op == "StoreDeliveries" && w.store.calls[op] == 2 {
					return errDown, after
				}
				return nil, false
			}
			if err := w.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
				t.Errorf("error %v", err)
			}
			synctest.Wait()
			if n := len(l.heard); n != maxRecord {
				t.Errorf("%d deliveries are told, want %d", n, maxRecord)
			}
			w.record(events)
			w.record(events)
			synctest.Wait()
			seen := map[string]int{}
			for _, s := range l.heard {
				if seen[s]++; seen[s] > 1 || !strings.HasSuffix(s, " is stored") {
					t.Fatalf("%s is told %d times", s, seen[s])
				}
			}
			if len(seen) != len(events) || len(w.store.deliveries) != len(events) || w.store.delivery(sent).Status != delivery.Succeeded {
				t.Errorf("%d are told, %d stored, want %d", len(seen), len(w.store.deliveries), len(events))
			}
			end := events[len(events)-1].Position
			if got := w.recorder.Stored(end); got != end {
				t.Errorf("stored up to %v, want %v", got, end)
			}
			l.heard = nil
			w.emit(1)
			events = w.events()
			w.record(events)
			w.record(events)
			l.told(t, fmt.Sprintf("%s for %s", events[0].ID, id))
		})
	}
}

func TestRecordIsNotForAnotherOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.register()
		w.events()
		w.emit(1)
		w.store.epoch = 2
		if err := w.recorder.Record(t.Context(), w.events()); signal.CodeOf(err) != signal.CodeNotOwner {
			t.Errorf("error %v", err)
		}
		l.told(t)
	})
}

// What is open keeps the position before its event, until Redis has it: by its outcome,
// because no endpoint has it any more, or because it was open for too long.
func TestOpenDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		first, second := w.register(), w.register()
		l.begin(w)
		w.emit(3)
		events := w.events()
		w.record(events[:2])
		time.Sleep(time.Second)
		w.record(events[2:])
		synctest.Wait()
		end := events[2].Position
		upTo := func(want signal.Position) {
			t.Helper()
			if got := w.recorder.Stored(end); got != want {
				t.Errorf("stored up to %v, want %v", got, want)
			}
		}
		before := w.store.log[1].Position // of the second registration
		upTo(before)
		of := map[string]*item{}
		for _, i := range l.items {
			of[fmt.Sprint(i.Event, i.Webhook)] = i
		}
		item := func(event int, id signal.WebhookID) *item { return of[fmt.Sprint(events[event].ID, id)] }
		item(0, first).noteStored()
		item(0, first).noteStored() // twice is once
		item(1, first).noteStored()
		item(1, second).noteStored()
		upTo(before)
		item(0, second).noteStored()
		upTo(events[1].Position)

		l.heard = nil
		item(2, second).released.Store(true)
		if err := w.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); err != nil {
			t.Fatal(err)
		}
		l.told(t, fmt.Sprintf("%s for %s is stored", events[2].ID, second))
		upTo(events[1].Position)
		time.Sleep(inFlightFor)
		w.store.fail = func(op string) (error, bool) { return errDown, op == "StoreDeliveries" }
		if err := w.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		upTo(events[1].Position)
		w.store.fail = nil
		w.storeInFlight()
		l.told(t, fmt.Sprintf("%s for %s is stored", events[2].ID, first))
		upTo(end)
		if d := cmp.Diff([]storedPage{{1, 1}, {1, 1}, {1, 1}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// More than may be open is stored before the next ones are told.
func TestOpenDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.register()
		l.begin(w)
		w.emit(maxInFlight)
		w.record(w.events())
		if w.store.kept != nil {
			t.Fatalf("stored %d pages", len(w.store.kept))
		}
		w.emit(1)
		events := w.events()
		w.store.fail = func(op string) (error, bool) { return errDown, false }
		if err := w.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		w.store.fail = nil
		w.record(events)
		synctest.Wait()
		if n := len(w.store.deliveries); n != maxInFlight {
			t.Errorf("%d are stored, want %d", n, maxInFlight)
		}
		for _, p := range w.store.kept {
			if p.Deliveries > inFlightPage {
				t.Errorf("%d are stored at once, want at most %d", p.Deliveries, inFlightPage)
			}
		}
	})
}

// An event is never divided, and bodies fill a page, too.
func TestRecordInBoundedPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := recording(t)
		for range 100 {
			w.register()
		}
		w.events()
		w.emit(7)
		w.record(w.events())
		if d := cmp.Diff([]storedPage{{3, 300}, {3, 300}, {1, 100}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w, _ := recording(t)
		w.register()
		w.events()
		w.store.set(func() {
			for range 5 {
				w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.SignalCreated, Data: make([]byte, 200<<10)})
			}
		})
		w.record(w.events())
		if d := cmp.Diff([]storedPage{{3, 3}, {2, 2}}, w.store.kept); d != "" {
			t.Errorf("stored of large events (-want +got):\n%s", d)
		}
	})
}

// The table of an account is read once, until something changes in it.
func TestTablesFollowChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.emit(1)
		w.record(w.events())
		id := w.register() // the first one of the account, after the Recorder has begun
		time.Sleep(time.Minute)
		w.emit(1)
		events := w.events()
		w.record(events)
		l.told(t, fmt.Sprintf("%s changed", id), fmt.Sprintf("%s for %s", events[1].ID, id))
		for range 3 {
			w.emit(1)
			w.record(w.events())
		}
		if n := w.store.count("Webhooks"); n != 1 {
			t.Errorf("the table was read %d times, want once", n)
		}
		synctest.Wait()
		l.heard = nil

		w.store.disable(id)
		w.emit(1)
		w.record(w.events())
		l.told(t, fmt.Sprintf("%s changed", id))
		w.store.enable(id)
		w.emit(1)
		events = w.events()
		w.record(events)
		l.told(t, fmt.Sprintf("%s changed", id), fmt.Sprintf("%s for %s", events[1].ID, id))
		w.store.remove(id)
		w.emit(2)
		w.record(w.events())
		l.told(t, fmt.Sprintf("%s changed", id))

		// An account without webhooks is not asked for.
		n := w.store.count("Webhooks")
		w.emit(1)
		w.record(w.events())
		if got := w.store.count("Webhooks"); got != n {
			t.Errorf("the table of an account without webhooks is read again")
		}
	})
}

// What was read of an account before it has changed is not kept.
func TestATableReadMeanwhileIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.register()
		l.begin(w)
		w.store.fail = func(op string) (error, bool) {
			if op == "Webhooks" && w.store.calls[op] == 1 {
				w.recorder.forget(w.account)
			}
			return nil, false
		}
		for range 3 {
			w.emit(1)
			w.record(w.events())
		}
		if n := w.store.count("Webhooks"); n != 2 {
			t.Errorf("the table was read %d times, want twice", n)
		}
	})
}

func TestTablesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		var accounts []signal.AccountID
		for range maxTables/100 + 20 {
			w.account = signal.NewAccountID()
			accounts = append(accounts, w.account)
			for range 100 {
				w.register()
			}
		}
		l.begin(w)
		for round := range 2 {
			for _, a := range accounts {
				w.account = a
				w.emit(1)
				w.record(w.events())
				w.storeInFlight()
				if n := len(w.store.kept); n == 0 || w.store.kept[n-1].Deliveries != 100 {
					t.Fatalf("stored %v, want 100 deliveries at last", w.store.kept)
				}
				w.store.kept = nil
				sum := 0 // of all tables
				for _, table := range w.recorder.tables {
					sum += len(table)
				}
				if sum != w.recorder.size || sum > maxTables {
					t.Fatalf("round %d: tables of %d subscribers, counted as %d, want at most %d", round, sum, w.recorder.size, maxTables)
				}
			}
		}
	})
}

func TestRecordOfAnAccountThatIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.register()
		l.begin(w)
		w.emit(1)
		w.store.set(func() {
			w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.AccountDeleted})
		})
		w.emit(1)
		w.record(w.events())
		w.emit(1) // by a request that was under way
		w.record(w.events())
		l.told(t, fmt.Sprintf("%s deleted", w.account))
		if len(w.store.kept) != 0 {
			t.Errorf("stored %v", w.store.kept)
		}
	})
}

// What was before a registration, or while the webhook was disabled, is not delivered,
// though the events are read only after it; what follows is, from the same millisecond
// on.
func TestNoEventFromBeforeTheRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		l.begin(w)
		w.emit(1)
		id := w.register()
		first := w.emit(1)[0]
		events := w.events()
		w.record(events)
		changed := fmt.Sprintf("%s changed", id)
		l.told(t, changed, fmt.Sprintf("%s for %s", first, id))
		w.store.disable(id)
		w.emit(1)
		w.store.enable(id)
		last := w.emit(1)[0]
		w.record(w.events())
		l.told(t, changed, changed, fmt.Sprintf("%s for %s", last, id))
	})
}

func TestRecordWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"LastEvent", "AccountsWithWebhooks", "Webhooks"} {
		synctest.Test(t, func(t *testing.T) {
			w, l := recording(t)
			id := w.register()
			w.events()
			w.emit(1)
			events := w.events()
			w.store.fail = func(failing string) (error, bool) {
				if failing == op {
					return errDown, false
				}
				return nil, false
			}
			if err := w.recorder.Record(context.Background(), events); err == nil {
				t.Errorf("%s fails: no error", op)
			}
			l.told(t)
			w.store.set(func() { w.store.fail = nil })
			w.record(events)
			l.told(t, fmt.Sprintf("%s for %s is stored", events[0].ID, id))
		})
	}
}
