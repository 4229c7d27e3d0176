package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	mu       sync.Mutex
	messages []string
	items    []*item // of new deliveries
}

func (l *listener) Receive(c engine.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := c.Message().(type) {
	case deliveriesMade:
		for _, b := range m.batches {
			for _, d := range b.items {
				l.messages = append(l.messages, made(d.Event, b.id))
				l.items = append(l.items, d)
			}
		}
	case deliveriesStored:
		for _, b := range m.batches {
			for _, d := range b.items {
				l.messages = append(l.messages, made(d.Event, b.id)+" is stored")
			}
		}
	case forEndpoint:
		l.messages = append(l.messages, fmt.Sprintf("%s %T", m.id, m.message))
	case accountDeleted:
		l.messages = append(l.messages, fmt.Sprintf("%s deleted", m.id))
	}
}

// made returns the message of a new delivery for received.
func made(e signal.EventID, id signal.WebhookID) string { return fmt.Sprintf("%s for %s", e, id) }

// received checks the messages to the webhooks since the last call.
func (l *listener) received(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(want, l.messages); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
	l.messages = nil
}

// inRecording runs a test in a world with a Recorder and nothing else.
func inRecording(t *testing.T, test func(t *testing.T, w *world, l *listener)) {
	inWorld(t, func(t *testing.T, w *world) {
		l := &listener{}
		w.recorder = newRecorder(&owned{Node: w.node, Owned: ownership.Owned{Epoch: 1}, log: w.node.log})
		produce := func() engine.Actor { return l }
		w.recorder.parent = w.system.Spawn(engine.Supervisor, "webhooks", produce, engine.Supervision{})
		t.Cleanup(w.stop)
		test(t, w, l)
	})
}

// events returns the events appended to the log since the last call.
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

// recordNew appends n events and records the new events of the log.
func (w *world) recordNew(n int) []signal.Event {
	w.t.Helper()
	w.emit(n)
	events := w.events()
	w.record(events)
	return events
}

// begin starts the Recorder: the events in the log so far were a previous owner's.
func (l *listener) begin(w *world) {
	w.t.Helper()
	w.record(w.events())
	l.ignore()
}

// ignore drops the messages since the last call of received.
func (l *listener) ignore() {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = nil
}

// storeInFlight stores all deliveries in flight.
func (w *world) storeInFlight() {
	w.t.Helper()
	if err := w.recorder.storeInFlight(w.t.Context(), time.Now()); err != nil {
		w.t.Fatal(err)
	}
}

func TestRecordForSubscribers(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		all := w.register(func(h *delivery.Webhook) { h.Events = delivery.WebhookEvents })
		created := w.register()
		old := w.register(func(h *delivery.Webhook) { h.APIVersion = "2025-01-01" })
		w.register(func(h *delivery.Webhook) { h.Status = delivery.WebhookDisabled })
		w.register(func(h *delivery.Webhook) { h.Account = signal.NewAccountID() })
		l.begin(w)
		data := []byte(`{}`)
		w.append(
			signal.Event{Type: signal.SignalCreated, Data: data},
			signal.Event{Type: signal.SignalClosed, Data: data},
			signal.Event{Type: signal.SystemNotification, Data: data},
			signal.Event{Type: signal.KeyRevoked, Data: data},
			signal.Event{Type: signal.SignalCreated, Data: data, Account: signal.NewAccountID()},
		)
		events := w.events()
		w.record(events)
		first, second := events[0].ID, events[1].ID
		l.received(t, made(first, old), made(first, created), made(first, all), made(second, all))
		if w.store.kept != nil {
			t.Errorf("stored %v before anything was sent", w.store.kept)
		}
		w.storeInFlight()
		// One body of each version of each event.
		if d := cmp.Diff([]storedPage{{Bodies: 3, Deliveries: 4}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		const current = "2026-11-01"
		for id, version := range map[signal.WebhookID]string{all: current, created: current, old: "2025-01-01"} {
			d := w.store.deliveries[signal.DeliveryIDOf(first, id)]
			want := AppendBody(nil, first, signal.SignalCreated, version, events[0].Time(), data)
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
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.recordNew(3)
		l.received(t)
		if n := w.store.count("StoreDeliveries") + w.store.count("Webhooks"); n != 0 {
			t.Errorf("%d calls for an account without webhooks", n)
		}
	})
}

// Deliveries that a previous owner may have made are stored before they are sent: those
// that it has sent are in Redis. A failed write is repeated with all of its events, and
// none is notified twice, even if the failed write had an effect.
func TestRecordDeliveriesOfAPreviousOwner(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"failed before": false, "failed after": true} {
		t.Run(name, func(t *testing.T) {
			inRecording(t, func(t *testing.T, w *world, l *listener) { testPreviousOwner(t, w, l, after) })
		})
	}
}

func testPreviousOwner(t *testing.T, w *world, l *listener, after bool) {
	id := w.register()
	w.events()
	w.emit(maxRecord + 10) // two writes; the second fails
	events := w.events()
	sent := signal.DeliveryIDOf(events[0].ID, id)
	done := delivery.Delivery{ID: sent, Webhook: id, Status: delivery.Succeeded}
	w.store.deliveries[sent] = &delivery.PendingDelivery{Delivery: done}
	w.store.fail = failIf(after, func(op string) bool { return op == "StoreDeliveries" && w.store.calls[op] == 2 })
	if err := w.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
	synctest.Wait()
	if n := len(l.messages); n != maxRecord {
		t.Errorf("%d deliveries are notified, want %d", n, maxRecord)
	}
	w.record(events)
	w.record(events)
	synctest.Wait()
	seen := map[string]int{}
	for _, s := range l.messages {
		if seen[s]++; seen[s] > 1 || !strings.HasSuffix(s, " is stored") {
			t.Fatalf("%s: %d notifications", s, seen[s])
		}
	}
	if len(seen) != len(events) || len(w.store.deliveries) != len(events) ||
		w.store.delivery(sent).Status != delivery.Succeeded {
		t.Errorf("%d are notified, %d stored, want %d", len(seen), len(w.store.deliveries), len(events))
	}
	end := events[len(events)-1].Position
	if got := w.recorder.Stored(end); got != end {
		t.Errorf("stored up to %v, want %v", got, end)
	}
	l.ignore()
	events = w.recordNew(1)
	w.record(events)
	l.received(t, made(events[0].ID, id))
}

func TestRecordIsNotForAnotherOwner(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.register()
		w.events()
		w.emit(1)
		w.store.epoch = 2
		if err := w.recorder.Record(t.Context(), w.events()); signal.CodeOf(err) != signal.CodeNotOwner {
			t.Errorf("error %v", err)
		}
		l.received(t)
	})
}

// A delivery in flight keeps the position before its event until Redis has it: with its
// outcome, because its endpoint has released it, or because it is overdue.
func TestInFlight(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
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

		l.ignore()
		item(2, second).released.Store(true)
		if err := w.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); err != nil {
			t.Fatal(err)
		}
		l.received(t, made(events[2].ID, second)+" is stored")
		upTo(events[1].Position)
		time.Sleep(inFlightFor)
		w.store.fail = func(op string) (error, bool) { return errDown, op == "StoreDeliveries" }
		if err := w.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		upTo(events[1].Position)
		w.store.fail = nil
		w.storeInFlight()
		l.received(t, made(events[2].ID, first)+" is stored")
		upTo(end)
		if d := cmp.Diff([]storedPage{{1, 1}, {1, 1}, {1, 1}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// If too many are in flight, the oldest are stored before the next ones are sent, and no more than make
// room for them.
func TestInFlightIsBounded(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.register()
		l.begin(w)
		all := w.recordNew(maxInFlight)
		if w.store.kept != nil {
			t.Fatalf("stored %d pages", len(w.store.kept))
		}
		w.emit(1)
		events := w.events()
		all = append(all, events...)
		w.store.fail = func(op string) (error, bool) { return errDown, false }
		if err := w.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		w.store.fail = nil
		w.record(events)
		synctest.Wait()
		if d := cmp.Diff([]storedPage{{inFlightPage, inFlightPage}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		if n := len(w.recorder.inFlight.list); n != len(all)-inFlightPage {
			t.Errorf("%d events are in flight, want %d", n, len(all)-inFlightPage)
		}
		for i, e := range w.recorder.inFlight.list { // without those that are stored
			if want := all[inFlightPage:][i].ID; e.items[0].Event != want {
				t.Fatalf("event %d in flight is %s, want %s", i, e.items[0].Event, want)
			}
		}
	})
}

// A delivery whose outcome is stored while others are stored as pending is left out.
func TestOutcomesAreStoredMeanwhile(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.register()
		l.begin(w)
		w.recordNew(3 * inFlightPage)
		w.store.fail = func(op string) (error, bool) {
			for _, e := range w.recorder.inFlight.list[inFlightPage+1:] {
				e.items[0].noteStored()
			}
			return nil, false
		}
		time.Sleep(inFlightFor)
		if err := w.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]storedPage{{inFlightPage, inFlightPage}, {1, 1}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// Deliveries that Redis has leave room for others, even if an older one is still in flight. What is
// held because of that one is bounded, too.
func TestStoredDeliveriesLeaveRoom(t *testing.T) {
	var table inFlight
	add := func(n int) []*item {
		event := &inFlightEvent{items: make([]*item, n)}
		for i := range event.items {
			event.items[i] = &item{event: event}
		}
		event.count.Store(int32(n))
		table.add([]*inFlightEvent{event})
		return event.items
	}
	fits := func(most int) {
		t.Helper()
		if !table.fits(most) || table.fits(most+1) {
			t.Errorf("room for %d is %t, for one more %t", most, table.fits(most), table.fits(most+1))
		}
	}
	oldest := add(1)[0]
	for held := 1; held < maxHeld; held += maxInFlight {
		fits(maxInFlight - 1)
		items := add(min(maxInFlight, maxHeld-held))
		fits(maxInFlight - 1 - len(items))
		for _, i := range items {
			i.noteStored()
			i.pass() // twice is once
		}
	}
	fits(0)
	oldest.noteStored()
	fits(maxInFlight)
}

// An event is never split. The number of deliveries and the size of bodies bound a page.
func TestRecordInBoundedPages(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, _ *listener) {
		for range 100 {
			w.register()
		}
		w.events()
		w.emit(6)
		w.append(slices.Repeat([]signal.Event{{Type: signal.SignalCreated, Data: make([]byte, 300<<10)}}, 3)...)
		w.record(w.events())
		if d := cmp.Diff([]storedPage{{3, 300}, {3, 300}, {2, 200}, {1, 100}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// The table of an account is read once, until it changes.
func TestTablesFollowChanges(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.recordNew(1)
		id := w.register() // the first one of the account, after the Recorder has begun
		time.Sleep(time.Minute)
		events := w.recordNew(1)
		changed := fmt.Sprintf("%s webhook.changed", id)
		l.received(t, changed, made(events[1].ID, id))
		for range 3 {
			w.recordNew(1)
		}
		w.calls("Webhooks", 1)
		l.ignore()

		w.store.disable(id)
		w.recordNew(1)
		l.received(t, changed)
		w.store.enable(id)
		events = w.recordNew(1)
		l.received(t, changed, made(events[1].ID, id))
		w.store.remove(id)
		w.recordNew(2)
		l.received(t, changed)

		// The table of an account without webhooks is not read.
		n := w.store.count("Webhooks")
		w.recordNew(1)
		w.calls("Webhooks", n)
	})
}

func TestTablesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	inRecording(t, func(t *testing.T, w *world, l *listener) {
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
				w.recordNew(1)
				w.storeInFlight()
				if n := len(w.store.kept); n == 0 || w.store.kept[n-1].Deliveries != 100 {
					t.Fatalf("stored %v, want 100 deliveries at last", w.store.kept)
				}
				w.store.kept = nil
				sum := 0 // of all tables
				for _, table := range w.recorder.tables {
					sum += len(table)
				}
				if size := w.recorder.size; sum != size || sum > maxTables {
					t.Fatalf("round %d: %d subscribers, counted as %d, want at most %d", round, sum, size, maxTables)
				}
			}
		}
	})
}

func TestRecordForADeletedAccount(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		w.register()
		l.begin(w)
		w.emit(1)
		w.append(signal.Event{Type: signal.AccountDeleted})
		w.recordNew(1)
		w.recordNew(1) // by a request in flight
		l.received(t, fmt.Sprintf("%s deleted", w.account))
		if len(w.store.kept) != 0 {
			t.Errorf("stored %v", w.store.kept)
		}
	})
}

// Events before a registration, or while the webhook is disabled, are not delivered, even
// if they are read later. The next ones are, from the same millisecond on.
func TestNoEventFromBeforeTheRegistration(t *testing.T) {
	inRecording(t, func(t *testing.T, w *world, l *listener) {
		l.begin(w)
		w.emit(1)
		id := w.register()
		first := w.emit(1)[0]
		events := w.events()
		w.record(events)
		changed := fmt.Sprintf("%s webhook.changed", id)
		l.received(t, changed, made(first, id))
		w.store.disable(id)
		w.emit(1)
		w.store.enable(id)
		last := w.emit(1)[0]
		w.record(w.events())
		l.received(t, changed, changed, made(last, id))
	})
}

func TestRecordWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"LastEvent", "AccountsWithWebhooks", "Webhooks"} {
		t.Run(op, func(t *testing.T) {
			inRecording(t, func(t *testing.T, w *world, l *listener) {
				id := w.register()
				w.events()
				w.emit(1)
				events := w.events()
				w.store.fail = failIf(false, func(failing string) bool { return failing == op })
				if err := w.recorder.Record(context.Background(), events); err == nil {
					t.Error("no error")
				}
				l.received(t)
				w.store.set(func() { w.store.fail = nil })
				w.record(events)
				l.received(t, made(events[0].ID, id)+" is stored")
			})
		})
	}
}
