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

// withRecorder runs a test in a harness with a Recorder and nothing else.
func withRecorder(t *testing.T, test func(t *testing.T, h *harness, l *listener)) {
	withHarness(t, func(t *testing.T, h *harness) {
		l := &listener{}
		h.recorder = newRecorder(&owned{Node: h.node, Owned: ownership.Owned{Epoch: 1}, log: h.node.log})
		produce := func() engine.Actor { return l }
		h.recorder.parent = h.system.Spawn(engine.Supervisor, "webhooks", produce, engine.Supervision{})
		t.Cleanup(h.stop)
		test(t, h, l)
	})
}

// events returns the events appended to the log since the last call.
func (h *harness) events() (events []signal.Event) {
	h.store.set(func() { events, h.read = h.store.log[h.read:], len(h.store.log) })
	return events
}

func (h *harness) record(events []signal.Event) {
	h.t.Helper()
	if err := h.recorder.Record(h.t.Context(), events); err != nil {
		h.t.Fatal(err)
	}
}

// recordNew appends n events and records the new events of the log.
func (h *harness) recordNew(n int) []signal.Event {
	h.t.Helper()
	h.emit(n)
	events := h.events()
	h.record(events)
	return events
}

// begin starts the Recorder: the events in the log so far were a previous owner's.
func (l *listener) begin(h *harness) {
	h.t.Helper()
	h.record(h.events())
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
func (h *harness) storeInFlight() {
	h.t.Helper()
	if err := h.recorder.storeInFlight(h.t.Context(), time.Now()); err != nil {
		h.t.Fatal(err)
	}
}

func TestRecordForSubscribers(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		all := h.register(func(hook *delivery.Webhook) { hook.Events = delivery.WebhookEvents })
		created := h.register()
		old := h.register(func(hook *delivery.Webhook) { hook.APIVersion = "2025-01-01" })
		h.register(func(hook *delivery.Webhook) { hook.Status = delivery.WebhookDisabled })
		h.register(func(hook *delivery.Webhook) { hook.Account = signal.NewAccountID() })
		l.begin(h)
		data := []byte(`{}`)
		h.append(
			signal.Event{Type: signal.SignalCreated, Data: data},
			signal.Event{Type: signal.SignalClosed, Data: data},
			signal.Event{Type: signal.SystemNotification, Data: data},
			signal.Event{Type: signal.KeyRevoked, Data: data},
			signal.Event{Type: signal.SignalCreated, Data: data, Account: signal.NewAccountID()},
		)
		events := h.events()
		h.record(events)
		first, second := events[0].ID, events[1].ID
		l.received(t, made(first, old), made(first, created), made(first, all), made(second, all))
		if h.store.kept != nil {
			t.Errorf("stored %v before anything was sent", h.store.kept)
		}
		h.storeInFlight()
		// One body of each version of each event.
		if d := cmp.Diff([]storedPage{{Bodies: 3, Deliveries: 4}}, h.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		const current = "2026-11-01"
		for id, version := range map[signal.WebhookID]string{all: current, created: current, old: "2025-01-01"} {
			d := h.store.deliveries[signal.DeliveryIDOf(first, id)]
			want := AppendBody(nil, first, signal.SignalCreated, version, events[0].Time(), data)
			if d := cmp.Diff(string(want), string(d.Body)); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
			if d.Status != delivery.Pending || !d.NextAttemptAt.Equal(events[0].Time()) || d.Account != h.account {
				t.Errorf("stored %+v", d.Delivery)
			}
		}
	})
}

func TestRecordNothing(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.recordNew(3)
		l.received(t)
		if n := h.store.count("StoreDeliveries") + h.store.count("Webhooks"); n != 0 {
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
			withRecorder(t, func(t *testing.T, h *harness, l *listener) { testPreviousOwner(t, h, l, after) })
		})
	}
}

func testPreviousOwner(t *testing.T, h *harness, l *listener, after bool) {
	id := h.register()
	h.events()
	h.emit(maxRecord + 10) // two writes; the second fails
	events := h.events()
	sent := signal.DeliveryIDOf(events[0].ID, id)
	done := delivery.Delivery{ID: sent, Webhook: id, Status: delivery.Succeeded}
	h.store.deliveries[sent] = &delivery.PendingDelivery{Delivery: done}
	h.store.fail = failIf(after, func(op string) bool { return op == "StoreDeliveries" && h.store.calls[op] == 2 })
	if err := h.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
	synctest.Wait()
	if n := len(l.messages); n != maxRecord {
		t.Errorf("%d deliveries are notified, want %d", n, maxRecord)
	}
	h.record(events)
	h.record(events)
	synctest.Wait()
	seen := map[string]int{}
	for _, s := range l.messages {
		if seen[s]++; seen[s] > 1 || !strings.HasSuffix(s, " is stored") {
			t.Fatalf("%s: %d notifications", s, seen[s])
		}
	}
	if len(seen) != len(events) || len(h.store.deliveries) != len(events) ||
		h.store.delivery(sent).Status != delivery.Succeeded {
		t.Errorf("%d are notified, %d stored, want %d", len(seen), len(h.store.deliveries), len(events))
	}
	end := events[len(events)-1].Position
	if got := h.recorder.Stored(end); got != end {
		t.Errorf("stored up to %v, want %v", got, end)
	}
	l.ignore()
	events = h.recordNew(1)
	h.record(events)
	l.received(t, made(events[0].ID, id))
}

func TestRecordIsNotForAnotherOwner(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.register()
		h.events()
		h.emit(1)
		h.store.epoch = 2
		if err := h.recorder.Record(t.Context(), h.events()); signal.CodeOf(err) != signal.CodeNotOwner {
			t.Errorf("error %v", err)
		}
		l.received(t)
	})
}

// A delivery in flight keeps the position before its event until Redis has it: with its
// outcome, because its endpoint has released it, or because it is overdue.
func TestInFlight(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		first, second := h.register(), h.register()
		l.begin(h)
		h.emit(3)
		events := h.events()
		h.record(events[:2])
		time.Sleep(time.Second)
		h.record(events[2:])
		synctest.Wait()
		end := events[2].Position
		upTo := func(want signal.Position) {
			t.Helper()
			if got := h.recorder.Stored(end); got != want {
				t.Errorf("stored up to %v, want %v", got, want)
			}
		}
		before := h.store.log[1].Position // of the second registration
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
		if err := h.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); err != nil {
			t.Fatal(err)
		}
		l.received(t, made(events[2].ID, second)+" is stored")
		upTo(events[1].Position)
		time.Sleep(inFlightFor)
		h.store.fail = func(op string) (error, bool) { return errDown, op == "StoreDeliveries" }
		if err := h.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		upTo(events[1].Position)
		h.store.fail = nil
		h.storeInFlight()
		l.received(t, made(events[2].ID, first)+" is stored")
		upTo(end)
		if d := cmp.Diff([]storedPage{{1, 1}, {1, 1}, {1, 1}}, h.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// If too many are in flight, the oldest are stored before the next ones are sent, and no more than make
// room for them.
func TestInFlightIsBounded(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.register()
		l.begin(h)
		all := h.recordNew(maxInFlight)
		if h.store.kept != nil {
			t.Fatalf("stored %d pages", len(h.store.kept))
		}
		h.emit(1)
		events := h.events()
		all = append(all, events...)
		h.store.fail = func(op string) (error, bool) { return errDown, false }
		if err := h.recorder.Record(t.Context(), events); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		h.store.fail = nil
		h.record(events)
		synctest.Wait()
		if d := cmp.Diff([]storedPage{{inFlightPage, inFlightPage}}, h.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		if n := len(h.recorder.inFlight.list); n != len(all)-inFlightPage {
			t.Errorf("%d events are in flight, want %d", n, len(all)-inFlightPage)
		}
		for i, e := range h.recorder.inFlight.list { // without those that are stored
			if want := all[inFlightPage:][i].ID; e.items[0].Event != want {
				t.Fatalf("event %d in flight is %s, want %s", i, e.items[0].Event, want)
			}
		}
	})
}

// A delivery whose outcome is stored while others are stored as pending is left out.
func TestOutcomesAreStoredMeanwhile(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.register()
		l.begin(h)
		h.recordNew(3 * inFlightPage)
		h.store.fail = func(op string) (error, bool) {
			for _, e := range h.recorder.inFlight.list[inFlightPage+1:] {
				e.items[0].noteStored()
			}
			return nil, false
		}
		time.Sleep(inFlightFor)
		if err := h.recorder.storeInFlight(t.Context(), time.Now().Add(-inFlightFor)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]storedPage{{inFlightPage, inFlightPage}, {1, 1}}, h.store.kept); d != "" {
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
	withRecorder(t, func(t *testing.T, h *harness, _ *listener) {
		for range 100 {
			h.register()
		}
		h.events()
		h.emit(6)
		h.append(slices.Repeat([]signal.Event{{Type: signal.SignalCreated, Data: make([]byte, 300<<10)}}, 3)...)
		h.record(h.events())
		if d := cmp.Diff([]storedPage{{3, 300}, {3, 300}, {2, 200}, {1, 100}}, h.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
	})
}

// The table of an account is read once, until it changes.
func TestTablesFollowChanges(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.recordNew(1)
		id := h.register() // the first one of the account, after the Recorder has begun
		time.Sleep(time.Minute)
		events := h.recordNew(1)
		changed := fmt.Sprintf("%s webhook.changed", id)
		l.received(t, changed, made(events[1].ID, id))
		for range 3 {
			h.recordNew(1)
		}
		h.calls("Webhooks", 1)
		l.ignore()

		h.store.disable(id)
		h.recordNew(1)
		l.received(t, changed)
		h.store.enable(id)
		events = h.recordNew(1)
		l.received(t, changed, made(events[1].ID, id))
		h.store.remove(id)
		h.recordNew(2)
		l.received(t, changed)

		// The table of an account without webhooks is not read.
		n := h.store.count("Webhooks")
		h.recordNew(1)
		h.calls("Webhooks", n)
	})
}

func TestTablesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		var accounts []signal.AccountID
		for range maxTables/100 + 20 {
			h.account = signal.NewAccountID()
			accounts = append(accounts, h.account)
			for range 100 {
				h.register()
			}
		}
		l.begin(h)
		for round := range 2 {
			for _, a := range accounts {
				h.account = a
				h.recordNew(1)
				h.storeInFlight()
				if n := len(h.store.kept); n == 0 || h.store.kept[n-1].Deliveries != 100 {
					t.Fatalf("stored %v, want 100 deliveries at last", h.store.kept)
				}
				h.store.kept = nil
				sum := 0 // of all tables
				for _, table := range h.recorder.tables {
					sum += len(table)
				}
				if size := h.recorder.size; sum != size || sum > maxTables {
					t.Fatalf("round %d: %d subscribers, counted as %d, want at most %d", round, sum, size, maxTables)
				}
			}
		}
	})
}

func TestRecordForADeletedAccount(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		h.register()
		l.begin(h)
		h.emit(1)
		h.append(signal.Event{Type: signal.AccountDeleted})
		h.recordNew(1)
		h.recordNew(1) // by a request in flight
		l.received(t, fmt.Sprintf("%s deleted", h.account))
		if len(h.store.kept) != 0 {
			t.Errorf("stored %v", h.store.kept)
		}
	})
}

// Events before a registration, or while the webhook is disabled, are not delivered, even
// if they are read later. The next ones are, from the same millisecond on.
func TestNoEventFromBeforeTheRegistration(t *testing.T) {
	withRecorder(t, func(t *testing.T, h *harness, l *listener) {
		l.begin(h)
		h.emit(1)
		id := h.register()
		first := h.emit(1)[0]
		events := h.events()
		h.record(events)
		changed := fmt.Sprintf("%s webhook.changed", id)
		l.received(t, changed, made(first, id))
		h.store.disable(id)
		h.emit(1)
		h.store.enable(id)
		last := h.emit(1)[0]
		h.record(h.events())
		l.received(t, changed, changed, made(last, id))
	})
}

func TestRecordWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"LastEvent", "AccountsWithWebhooks", "Webhooks"} {
		t.Run(op, func(t *testing.T) {
			withRecorder(t, func(t *testing.T, h *harness, l *listener) {
				id := h.register()
				h.events()
				h.emit(1)
				events := h.events()
				h.store.fail = failIf(false, func(failing string) bool { return failing == op })
				if err := h.recorder.Record(context.Background(), events); err == nil {
					t.Error("no error")
				}
				l.received(t)
				h.store.set(func() { h.store.fail = nil })
				h.record(events)
				l.received(t, made(events[0].ID, id)+" is stored")
			})
		})
	}
}
