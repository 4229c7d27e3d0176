package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/google/go-cmp/cmp"
)

// waiter is an endpoint at a gate, in a test.
type waiter struct {
	ticket ticket
	asks   bool // it waits, as far as it knows
	lane   lane
	holds  [lanes]int
	grants int // not yet heard of
}

// Slots are never lost, given twice or left free while somebody could use them,
// whatever endpoints do.
func TestGateKeepsItsSlots(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newGate(1 + random.IntN(16))
		all := make([]waiter, 30)
		for i := range all {
			w := &all[i]
			w.ticket.granted = func() { w.grants++ }
		}
		for step := range 5000 {
			w := &all[random.IntN(len(all))]
			l := lane(random.IntN(int(lanes)))
			switch what := random.IntN(10); {
			case what < 4: // it has something to send
				if w.grants > 1 {
					t.Fatalf("seed %d, step %d: %d grants at once", seed, step, w.grants)
				}
				w.grants = 0
				entered := g.enter(&w.ticket, l)
				w.asks, w.lane = !entered, l
				if entered {
					w.holds[l]++
				}
			case what < 5:
				if !w.asks && g.enterMore(l) {
					w.holds[l]++
				}
			case what < 6:
				g.withdraw(&w.ticket)
				w.asks, w.grants = false, 0
			default:
				if w.holds[l] > 0 {
					w.holds[l]--
					g.leave(l)
				}
			}
			if err := checkGate(g, all); err != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, err)
			}
		}
		for i := range all {
			g.withdraw(&all[i].ticket)
			for l, n := range all[i].holds {
				for range n {
					g.leave(lane(l))
				}
			}
		}
		if g.used != 0 || g.slowUsed != 0 || g.asked(fastLane) || g.asked(slowLane) {
			t.Errorf("seed %d: %d slots are taken at the end, %d of them in the slow lane", seed, g.used, g.slowUsed)
		}
	}
}

// checkGate says what is wrong with a gate; nothing: empty.
func checkGate(g *gate, all []waiter) string {
	used, waiting := [lanes]int{}, [lanes]int{}
	for i := range all {
		w := &all[i]
		used[fastLane] += w.holds[fastLane]
		used[slowLane] += w.holds[slowLane]
		switch {
		case w.ticket.holds:
			used[w.ticket.lane]++
			if w.grants != 1 {
				return fmt.Sprintf("a slot was granted, and the endpoint told %d times", w.grants)
			}
		case w.ticket.place != nil:
			waiting[w.ticket.lane]++
		case w.asks:
			return "one that waits is forgotten"
		}
	}
	switch {
	case used[fastLane]+used[slowLane] != g.used || used[slowLane] != g.slowUsed:
		return fmt.Sprintf("%v slots are held, %d are counted, %d of them slow", used, g.used, g.slowUsed)
	case g.used > g.total || g.slowUsed > max(1, g.total/4):
		return fmt.Sprintf("%d of %d slots are taken, %d of them slow", g.used, g.total, g.slowUsed)
	case waiting[fastLane] > 0 && g.free(fastLane) || waiting[slowLane] > 0 && g.free(slowLane):
		return fmt.Sprintf("%v wait, and %d of %d slots are taken, %d of them slow", waiting, g.used, g.total, g.slowUsed)
	case g.asked(slowLane) != (waiting[fastLane]+waiting[slowLane] > 0):
		return "holders of slow slots are not asked for them"
	case waiting[fastLane] > 0 && !g.asked(fastLane):
		return "holders of fast slots are not asked for them"
	}
	return ""
}

// Those that wait are served in turn, the lanes by turns.
func TestGateIsFair(t *testing.T) {
	t.Parallel()
	g := newGate(4)
	var got []string
	wait := func(name string, l lane) {
		w := &ticket{}
		w.granted = func() { got = append(got, name) }
		if g.enter(w, l) {
			t.Fatalf("%s found a slot", name)
		}
	}
	for range 4 {
		g.enter(&ticket{}, fastLane)
	}
	for i := range 3 {
		wait(fmt.Sprint("fast ", i), fastLane)
		wait(fmt.Sprint("slow ", i), slowLane)
	}
	for range 4 { // of which only one may be slow
		g.leave(fastLane)
	}
	g.leave(slowLane)
	g.leave(slowLane)
	if first := strings.Join(got[:2], " "); !strings.Contains(first, "fast 0") || !strings.Contains(first, "slow 0") {
		t.Errorf("first: %s; want one of each lane", first)
	}
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:4], b[:4]) })
	if d := cmp.Diff([]string{"fast 0", "fast 1", "fast 2", "slow 0", "slow 1", "slow 2"}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

// An endpoint with much to send holds nobody up: with few slots all are served by
// turns.
func TestSlotsAreSharedByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.InFlight = 4 })
		greedy := w.register()
		w.courier.script(after(100*time.Millisecond, answers200))
		w.start()
		w.emit(200)
		pass(time.Second)
		var others []signal.WebhookID
		for range 20 {
			others = append(others, w.register(func(h *signal.Webhook) { h.CreatedAt = h.CreatedAt.Add(-time.Hour) }))
		}
		events := w.emit(1)
		pass(700 * time.Millisecond) // 20 requests by four at once take half a second
		for _, id := range others {
			w.once(id, events)
		}
		pass(time.Minute)
		w.statuses(greedy, map[string]int{"succeeded": 201})
	})
}

// Endpoints that hang have at most a quarter of the slots, once that is known of them.
func TestHangingEndpointsLeaveTheSlotsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.InFlight, o.Schedule.Retries = 16, []time.Duration{time.Hour} })
		hanging := map[string]bool{}
		for range 12 {
			id := w.register()
			hanging[w.url(id)] = true
			w.backlogged(id, 60)
		}
		healthy := w.register()
		w.courier.script(func(ctx context.Context, r Request) Result {
			if hanging[r.To.URL] {
				return hangs(ctx, r)
			}
			return after(10*time.Millisecond, answers200)(ctx, r)
		})
		w.start()
		pass(2 * time.Minute) // all have had three timeouts
		before := len(w.courier.sent(w.url(healthy)))
		for range 60 {
			w.emit(1)
			pass(time.Second)
			w.node.gate.mu.Lock()
			slow := w.node.gate.slowUsed
			w.node.gate.mu.Unlock()
			if slow > 4 {
				t.Fatalf("%d slots of 16 in the slow lane", slow)
			}
		}
		all := w.courier.sent(w.url(healthy))[before:]
		for _, s := range all {
			if late := s.At.Sub(w.store.delivery(s.Delivery).CreatedAt); late > 100*time.Millisecond {
				t.Errorf("a healthy endpoint waits %v", late)
			}
		}
		if len(all) != 60 {
			t.Errorf("%d requests, want 60", len(all))
		}
	})
}
