package webhook

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/google/go-cmp/cmp"
)

// listener is an actor in place of the partition's webhooks.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) Receive(c engine.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := c.Message().(type) {
	case deliveriesStored:
		for _, b := range m.batches {
			for _, d := range b.items {
				l.heard = append(l.heard, fmt.Sprintf("%s for %s", d.Event, b.id))
			}
		}
	case webhookChanged:
		l.heard = append(l.heard, fmt.Sprintf("%s changed", m.id))
	case webhookPoked:
		l.heard = append(l.heard, fmt.Sprintf("%s poked", m.id))
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
	w.recorder = newRecorder(&owned{Node: w.node, epoch: 1, log: w.node.log})
	w.recorder.parent = w.system.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return l }, engine.Supervision{})
	t.Cleanup(w.stop)
	time.Sleep(time.Minute) // webhooks are registered well before events
	return w, l
}

// events returns what was appended to the log since the last call.
func (w *world) events() (events []signal.Event) {
	w.store.set(func() { events, w.read = w.store.log[w.read:], len(w.store.log) })
	return events
}

func (w *world) record(events []signal.Event) signal.Position {
	w.t.Helper()
	stored, err := w.recorder.Record(w.t.Context(), events)
	if err != nil {
		w.t.Fatal(err)
	}
	return stored
}

func TestRecordForWhoeverIsSubscribed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		all := w.register(func(h *signal.Webhook) { h.Events = signal.WebhookEvents })
		created := w.register()
		old := w.register(func(h *signal.Webhook) { h.APIVersion = "2025-01-01" })
		w.register(func(h *signal.Webhook) { h.Status = signal.WebhookDisabled })
		w.register(func(h *signal.Webhook) { h.Account = signal.NewAccountID() })
		time.Sleep(time.Minute)
		w.events()
		for _, typ := range []signal.EventType{signal.SignalCreated, signal.SignalClosed, signal.SystemNotification, signal.KeyRevoked} {
			w.store.set(func() {
				w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: typ, Data: []byte(`{}`)})
			})
		}
		w.store.set(func() {
			w.store.append(signal.Event{ID: signal.NewEventID(), Account: signal.NewAccountID(), Type: signal.SignalCreated, Data: []byte(`{}`)})
		})
		events := w.events()
		if got := w.record(events); got != events[4].Position {
			t.Errorf("stored %v, want %v", got, events[4].Position)
		}
		first, second := events[0].ID, events[1].ID
		l.told(t, fmt.Sprintf("%s for %s", first, old), fmt.Sprintf("%s for %s", first, created),
			fmt.Sprintf("%s for %s", first, all), fmt.Sprintf("%s for %s", second, all))
		// One body of each version of each event.
		if d := cmp.Diff([]storedPage{{UpTo: events[4].Position, Bodies: 3, Deliveries: 4}}, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}
		for id, version := range map[signal.WebhookID]string{all: "2026-11-01", created: "2026-11-01", old: "2025-01-01"} {
			d := w.store.deliveries[signal.DeliveryIDOf(first, id)]
			want := AppendBody(nil, first, signal.SignalCreated, version, events[0].Time(), []byte(`{}`))
			if d := cmp.Diff(string(want), string(d.Body)); d != "" {
				t.Errorf("body (-want +got):\n%s", d)
			}
			if d.Status != signal.DeliveryPending || !d.NextAttemptAt.Equal(events[0].Time()) || d.Account != w.account {
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
		if got := w.record(w.events()); !got.IsZero() {
			t.Errorf("stored %v, want nothing", got)
		}
		l.told(t)
		if n := w.store.count("StoreDeliveries") + w.store.count("Webhooks"); n != 0 {
			t.Errorf("%d questions for an account without webhooks", n)
		}
	})
}

// A write that fails is repeated with all of its events: none is stored or told twice,
// even if the write that failed was carried out.
func TestRecordAgain(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l := recording(t)
			w.register()
			time.Sleep(time.Minute)
			w.events()
			w.emit(maxRecord + 10) // two writes, of which the second fails
			events := w.events()
			w.store.fail = func(op string) (error, bool) {
				if op == "StoreDeliveries" && w.store.calls[op] == 2 {
					return errDown, after
				}
				return nil, false
			}
			stored, err := w.recorder.Record(t.Context(), events)
			if err == nil || stored != events[maxRecord-1].Position {
				t.Errorf("stored %v, error %v", stored, err)
			}
			synctest.Wait()
			if n := len(l.heard); n != maxRecord {
				t.Errorf("%d deliveries are told, want %d", n, maxRecord)
			}
			if got := w.record(events); got != events[len(events)-1].Position {
				t.Errorf("stored %v then", got)
			}
			synctest.Wait()
			seen := map[string]int{}
			for _, s := range l.heard {
				if seen[s]++; seen[s] > 1 {
					t.Fatalf("%s is told twice", s)
				}
			}
			if len(seen) != len(events) || len(w.store.deliveries) != len(events) {
				t.Errorf("%d are told, %d stored, want %d", len(seen), len(w.store.deliveries), len(events))
			}
			if got := w.record(events); !got.IsZero() {
				t.Errorf("stored %v once more", got)
			}
		})
	}
}

func TestRecordIsNotForAnotherOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l := recording(t)
		w.register()
		time.Sleep(time.Minute)
		w.events()
		w.emit(1)
		w.store.epoch = 2
		if _, err := w.recorder.Record(t.Context(), w.events()); signal.CodeOf(err) != signal.CodeNotOwner {
			t.Errorf("error %v", err)
		}
		l.told(t)
	})
}

func TestRecordInBoundedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := recording(t)
		for range 100 {
			w.register()
		}
		time.Sleep(time.Minute)
		w.events()
		w.emit(7)
		events := w.events()
		w.record(events)
		// An event is never divided.
		want := []storedPage{{events[2].Position, 3, 300}, {events[5].Position, 3, 300}, {events[6].Position, 1, 100}}
		if d := cmp.Diff(want, w.store.kept); d != "" {
			t.Errorf("stored (-want +got):\n%s", d)
		}

		w.store.kept = nil
		w.store.set(func() {
			for range 5 {
				w.store.append(signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.SignalCreated, Data: make([]byte, 200<<10)})
			}
		})
		w.recorder.forget(w.account)
		w.store.set(func() { // one is left
			n := 0
			for id := range w.store.webhooks {
				if n++; n > 1 {
					delete(w.store.webhooks, id)
				}
			}
		})
		events = w.events()
		w.record(events)
		want = []storedPage{{events[2].Position, 3, 3}, {events[4].Position, 2, 2}}
		if d := cmp.Diff(want, w.store.kept); d != "" {
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
		l.told(t, fmt.Sprintf("%s for %s", events[1].ID, id), fmt.Sprintf("%s changed", id))
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
		l.told(t, fmt.Sprintf("%s for %s", events[1].ID, id), fmt.Sprintf("%s changed", id))
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
		w, _ := recording(t)
		w.register()
		time.Sleep(time.Minute)
		w.events()
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
		w, _ := recording(t)
		var accounts []signal.AccountID
		for range maxTables/100 + 20 {
			w.account = signal.NewAccountID()
			accounts = append(accounts, w.account)
			for range 100 {
				w.register()
			}
		}
		time.Sleep(time.Minute)
		w.events()
		for round := range 2 {
			for _, a := range accounts {
				w.account = a
				w.emit(1)
				w.store.kept = nil
				w.record(w.events())
				if n := w.store.kept[0].Deliveries; n != 100 {
					t.Fatalf("%d deliveries, want 100", n)
				}
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
		time.Sleep(time.Minute)
		w.events()
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
		w.emit(1)
		id := w.register()
		first := w.emit(1)[0]
		events := w.events()
		w.record(events)
		changed := fmt.Sprintf("%s changed", id)
		l.told(t, fmt.Sprintf("%s for %s", first, id), changed)
		w.store.disable(id)
		w.emit(1)
		w.store.enable(id)
		last := w.emit(1)[0]
		w.record(w.events())
		l.told(t, fmt.Sprintf("%s for %s", last, id), changed, changed)
	})
}

func TestRecordWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"AccountsWithWebhooks", "Webhooks"} {
		synctest.Test(t, func(t *testing.T) {
			w, l := recording(t)
			id := w.register()
			time.Sleep(time.Minute)
			w.events()
			w.emit(1)
			events := w.events()
			w.store.fail = func(failing string) (error, bool) {
				if failing == op {
					return errDown, false
				}
				return nil, false
			}
			if _, err := w.recorder.Record(context.Background(), events); err == nil {
				t.Errorf("%s fails: no error", op)
			}
			l.told(t)
			w.store.set(func() { w.store.fail = nil })
			w.record(events)
			l.told(t, fmt.Sprintf("%s for %s", events[0].ID, id))
		})
	}
}
