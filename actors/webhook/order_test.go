package webhook

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// behaviour is how an endpoint answers for a while.
type behaviour struct {
	fails, hangs float64       // probabilities
	takes        time.Duration // at most
}

var behaviours = []behaviour{
	{takes: 20 * time.Millisecond}, {takes: 3 * time.Second},
	{takes: 100 * time.Millisecond, fails: .3}, {takes: 100 * time.Millisecond, fails: 1},
	{takes: time.Second, fails: .2, hangs: .3}, {takes: time.Second, hangs: 1},
}

// lives emits random events of signals and keeps them by signal, in order.
type lives struct {
	random *rand.Rand
	open   []signal.SignalID
	events map[signal.SignalID][]signal.EventID
	all    []signal.EventID
}

func (l *lives) emit(h *harness, n int) {
	for range n {
		if len(l.open) == 0 || l.random.IntN(3) == 0 {
			s := signal.NewSignalID()
			l.open = append(l.open, s)
			l.add(s, h.emitOf(s, signal.SignalCreated))
			continue
		}
		i, t := l.random.IntN(len(l.open)), signal.SignalUpdated
		s := l.open[i]
		if l.random.IntN(3) == 0 {
			t = signal.SignalClosed
			l.open = slices.Delete(l.open, i, i+1)
		}
		l.add(s, h.emitOf(s, t))
		if l.random.IntN(4) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func (l *lives) add(s signal.SignalID, e signal.EventID) {
	l.events[s] = append(l.events[s], e)
	l.all = append(l.all, e)
	if len(l.events[s]) > 1 {
		time.Sleep(time.Millisecond) // no signal changes twice in a millisecond
	}
}

// check reports attempts to one endpoint that violate the order of a signal's events.
func (l *lives) check(t *testing.T, attempts []sent, wait time.Duration) {
	t.Helper()
	of := map[signal.EventID][]sent{}
	for _, a := range attempts {
		of[a.Event] = append(of[a.Event], a)
	}
	faults := 0
	fault := func(format string, args ...any) {
		if faults++; faults <= 5 {
			t.Errorf(format, args...)
		}
	}
	for s, events := range l.events {
		var all []sent // of the signal, in order
		for i, e := range events {
			if len(of[e]) == 0 {
				fault("%s: event %d was not sent", s, i)
				continue
			}
			all = append(all, of[e]...)
			for j, before := range events[:i] {
				first := of[e][0]
				if len(of[before]) == 0 || of[before][0].At.After(first.At) {
					fault("%s: event %d was sent before event %d", s, i, j)
				} else if after := first.At.Sub(of[before][0].ended); over(of[before]).After(first.At) && after < wait {
					fault("%s: event %d was sent %v after event %d, which waits for a retry", s, i, after, j)
				}
			}
		}
		slices.SortStableFunc(all, func(a, b sent) int { return a.At.Compare(b.At) })
		for i := 1; i < len(all); i++ {
			if all[i-1].ended.After(all[i].At) {
				fault("%s: two requests at once", s)
			}
		}
	}
	if faults > 5 {
		t.Errorf("and %d more", faults-5)
	}
}

// over returns when the first success of a delivery ended, or the last of its attempts.
func over(attempts []sent) time.Time {
	for _, a := range attempts {
		if a.succeeded {
			return a.ended
		}
	}
	return attempts[len(attempts)-1].ended
}

// Whatever an endpoint does, and whichever node owns the partition, two events of one
// signal are never in flight at once nor in the wrong order.
func TestOrderOfASignal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testOrderOfASignal(t, rand.New(rand.NewPCG(seed, 28))) })
		})
	}
}

func testOrderOfASignal(t *testing.T, random *rand.Rand) {
	options := func(o *Options) {
		o.Concurrency = []int{1, 3, 8}[random.IntN(3)]
		o.Schedule.Retries = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
			time.Hour, time.Hour}
		o.Health.DisableAfter = 100 * time.Hour
	}
	h := newHarness(t, options)
	id := h.register(allEvents)
	var mu sync.Mutex // guards answers and now
	answers := rand.New(rand.NewPCG(random.Uint64(), 2))
	now := behaviour{takes: 100 * time.Millisecond}
	h.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
		mu.Lock()
		takes := time.Duration(1 + answers.Int64N(int64(now.takes)))
		fails, never := answers.Float64() < now.fails, answers.Float64() < now.hangs
		mu.Unlock()
		switch {
		case never:
			return hangs(ctx, r)
		case fails:
			return after(takes, answers503)(ctx, r)
		}
		return after(takes, answers200)(ctx, r)
	})
	l := &lives{random: rand.New(rand.NewPCG(random.Uint64(), 1)), events: map[signal.SignalID][]signal.EventID{}}
	if random.IntN(2) == 0 {
		l.emit(h, random.IntN(600)) // in the log before the owner starts
	}
	h.store.takes = time.Duration(random.IntN(2)*random.IntN(20)) * time.Millisecond
	h.start()
	for range 12 {
		mu.Lock()
		now = behaviours[random.IntN(len(behaviours))]
		mu.Unlock()
		for range random.IntN(6) {
			l.emit(h, random.IntN(20))
			pass(time.Duration(random.Int64N(int64(20 * time.Second))))
		}
		if random.IntN(3) == 0 {
			l.emit(h, 300+random.IntN(400)) // more than fits into memory
		}
		pass(time.Duration(random.Int64N(int64(3 * time.Minute))))
		switch random.IntN(5) {
		case 0:
			h = h.takeOver(false, options)
		case 1:
			h = h.takeOver(true, options)
		case 2:
			h.recorder.parent.Tell(forEndpoint{h.account, id, deliveriesChanged{}})
		}
	}
	mu.Lock()
	now = behaviour{takes: 50 * time.Millisecond}
	mu.Unlock()
	pass(5 * time.Hour)
	synctest.Wait()
	h.statuses(id, map[string]int{"succeeded": len(l.all)})
	l.check(t, h.sender.sent(h.url(id)), 10*time.Minute)
}

func TestSignalOf(t *testing.T) {
	t.Parallel()
	data := []byte(`{"signal_id":"sig_1","agent_id":"trading","metadata":{"signal_id":"sig_2"}}`)
	body := AppendBody(nil, "evt_1", signal.SignalUpdated, "2026-11-01", time.Now(), data)
	for _, tt := range []struct {
		name string
		t    signal.EventType
		b    []byte
		want signal.SignalID
	}{
		{"payload", signal.SignalCreated, data, "sig_1"},
		{"body", signal.SignalUpdated, body, "sig_1"},
		{"in a text", signal.SignalClosed, []byte(`{"text":"\"signal_id\":\"sig_3\"","signal_id":"sig_4"}`), "sig_4"},
		{"of a run", signal.AgentCompleted, data, ""},
		{"none", signal.SignalCreated, []byte(`{"n":1}`), ""},
		{"cut off", signal.SignalCreated, []byte(`{"signal_id":"sig_1`), ""},
	} {
		if got := signalOf(tt.t, tt.b); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzSignalOf(f *testing.F) {
	f.Add([]byte(`{"signal_id":"sig_1"}`))
	f.Add([]byte(`"signal_id":"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		id := signalOf(signal.SignalCreated, b)
		if id != "" && !bytes.Contains(b, []byte(`"signal_id":"`+string(id)+`"`)) {
			t.Errorf("%q is read from %q", id, b)
		}
	})
}

// The later events of a signal wait for OrderWait, which may be none.
func TestOrderWaitEnds(t *testing.T) {
	t.Parallel()
	tests := []struct{ option, want time.Duration }{{0, 10 * time.Minute}, {time.Minute, time.Minute}, {-1, 0}}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(o *Options) { o.OrderWait = tt.option })
			s := signal.NewSignalID()
			id := h.serve(func(ctx context.Context, r sender.Request) sender.Result {
				if r.Type == signal.SignalCreated {
					return answers503(ctx, r)
				}
				return answers200(ctx, r)
			}, allEvents)
			pass(time.Second)
			h.emitOf(s, signal.SignalCreated)
			first := time.Now()
			pass(time.Millisecond)
			closed := h.emitOf(s, signal.SignalClosed)
			other := h.emitOf(signal.NewSignalID(), signal.SignalClosed)
			pass(time.Hour)
			for _, a := range h.sender.sent(h.url(id)) {
				took := a.At.Sub(first)
				if a.Event == closed && (took < tt.want || took > tt.want+100*time.Millisecond) {
					t.Errorf("with %v: the next event was sent after %v", tt.option, took)
				}
				if a.Event == other && took > 100*time.Millisecond {
					t.Errorf("an event of another signal was sent after %v", took)
				}
			}
			h.statuses(id, map[string]int{"succeeded": 2, "pending, status 503": 1})
		})
	}
}

// A delivery that waits has the time at which it will be sent.
func TestAWaitIsStored(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503, allEvents)
		s := signal.NewSignalID()
		first := h.emitOf(s, signal.SignalCreated)
		pass(10 * time.Millisecond)
		second := h.emitOf(s, signal.SignalClosed)
		pass(time.Second)
		a, b := h.store.delivery(signal.DeliveryIDOf(first, id)), h.store.delivery(signal.DeliveryIDOf(second, id))
		wait := b.NextAttemptAt.Sub(a.NextAttemptAt)
		if wait <= 0 || wait > 100*time.Millisecond || b.AttemptCount() != 0 {
			t.Errorf("due %v after the one before it, with %d attempts", wait, b.AttemptCount())
		}
		h.sender.script(nil)
		pass(time.Minute)
		h.statuses(id, map[string]int{"succeeded": 2})
		if n := len(h.store.waits[id]); n != 0 {
			t.Errorf("%d waits are left", n)
		}
	})
}

// The time of the last waiting delivery may be too early because the one before it was
// postponed again: the first endpoint that reads it corrects the time.
func TestTheLastOneWaitsForAPostponedOne(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answers503, allEvents)
		s := signal.NewSignalID()
		of := func(e signal.EventID) delivery.Delivery { return h.store.delivery(signal.DeliveryIDOf(e, id)) }
		head := h.emitOf(s, signal.SignalCreated)
		pass(6 * time.Second)
		next := h.emitOf(s, signal.SignalUpdated)
		pass(18 * time.Second)
		last := h.emitOf(s, signal.SignalClosed)
		pass(time.Second)
		// The second failure postpones the next one. Then the owner ends before it has read the
		// last one.
		pass(time.Until(of(next).NextAttemptAt) + 35*time.Millisecond)
		if len(of(head).Attempts) != 2 || !of(next).NextAttemptAt.After(of(head).NextAttemptAt) ||
			!of(last).NextAttemptAt.After(time.Now()) {
			t.Fatalf("at %v: head %+v, next %+v, last %+v", time.Now(), of(head), of(next), of(last))
		}
		h.unfollow()
		<-h.ended
		h.owner.Tell("stop")
		pass(0)
		// Its successor starts when the head is due and the next one is not.
		pass(time.Until(of(head).NextAttemptAt))
		if !of(next).NextAttemptAt.After(time.Now()) || len(of(last).Attempts) != 0 {
			t.Fatalf("at %v: next %+v, last %+v", time.Now(), of(next), of(last))
		}
		h.sender.script(nil)
		h.takeOver(false)
		pass(time.Hour)
		var order []signal.EventID
		for _, a := range h.sender.sent(h.url(id))[2:] {
			order = append(order, a.Event)
		}
		if want := []signal.EventID{head, next, last}; !slices.Equal(order, want) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

// itemAt returns a delivery of an event at a time.
func itemAt(ms int64, s signal.SignalID) *item {
	i := &item{signal: s}
	i.CreatedAt = time.UnixMilli(ms)
	return i
}

// newFreeOrder returns an order that no other one limits.
func newFreeOrder() *order {
	var free atomic.Int64
	free.Store(maxLiveNode)
	o := newOrder(&free)
	return &o
}

// An earlier event of a signal that is found while a later one is in flight stays in the
// queue, and is sent next.
func TestAnEarlierEventIsSentAfterTheOneInFlight(t *testing.T) {
	t.Parallel()
	o := newFreeOrder()
	earlier, later, last := itemAt(1, "sig_1"), itemAt(2, "sig_1"), itemAt(3, "sig_1")
	o.addLive([]*item{later})
	if o.pop(false, false) != later {
		t.Fatal("the only delivery is not sent")
	}
	o.addBacklog([]*item{earlier})
	o.addLive([]*item{last})
	if d := o.pop(false, false); d != nil {
		t.Errorf("the event of %d ms is sent while another one of its signal is in flight", d.CreatedAt.UnixMilli())
	}
	o.leave(later)
	if got := o.pop(false, false); got != earlier {
		t.Fatalf("sent next: %+v, want the earlier event", got)
	}
	o.leave(earlier)
	if o.pop(false, false) != last || o.pop(false, false) != nil {
		t.Error("the last event is not sent once at the end")
	}
	o.leave(last)
	if len(o.chains) != 0 || o.parked != 0 {
		t.Errorf("%d chains and %d parked deliveries are left", len(o.chains), o.parked)
	}
}

// After a failure three of the newest are sent for one of the oldest, until the endpoint
// has recovered.
func TestNewestFirstWhileRecovering(t *testing.T) {
	t.Parallel()
	o, recovering := newFreeOrder(), true
	made := func(from, n int) (items []*item) {
		for i := range n {
			items = append(items, itemAt(int64(from+i), ""))
		}
		return items
	}
	o.addBacklog(made(0, 5))
	o.addLive(made(100, 9))
	var got []int64
	take := func(n int) {
		for range n {
			got = append(got, o.pop(recovering, false).CreatedAt.UnixMilli())
		}
	}
	take(6)
	recovering = false
	take(8)
	if d := cmp.Diff([]int64{108, 107, 106, 0, 105, 104, 1, 2, 3, 4, 100, 101, 102, 103}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	if o.pop(recovering, false) != nil {
		t.Error("there is more")
	}
}

// TestEventsOfAMillisecondAreInTheOrderOfASignalsLife, whatever their random identifiers are.
func TestEventsOfAMillisecondAreInTheOrderOfASignalsLife(t *testing.T) {
	t.Parallel()
	types := []signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed}
	o := newFreeOrder()
	for i, id := range []signal.EventID{"evt_1", "evt_2", "evt_3"} { // ascending for types that descend
		d := &item{signal: "sig_1", PendingDelivery: delivery.PendingDelivery{Delivery: delivery.Delivery{
			Event: id, Type: types[len(types)-1-i], CreatedAt: time.UnixMilli(1)}}}
		o.link(d)
	}
	var got []signal.EventType
	for _, d := range o.chains["sig_1"].items {
		got = append(got, d.Type)
	}
	if !slices.Equal(got, types) {
		t.Errorf("the order is %v, want %v", got, types)
	}
}
