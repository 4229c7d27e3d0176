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

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// waiter is an endpoint at a gate, in a test.
type waiter struct {
	ticket ticket
	host   string // to which it sends
	asks   bool   // it waits, as far as it knows
	slots  []slot
	grants int // not yet heard of
}

// Slots are never lost, given twice or left free while somebody could use them,
// whatever endpoints do.
func TestGateKeepsItsSlots(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newGate(gateLimits{total: 1 + random.IntN(16), account: 1 + random.IntN(8), host: 1 + random.IntN(8)})
		accounts, hosts := 1+random.IntN(5), 1+random.IntN(5)
		host := func() string { return fmt.Sprint("host ", random.IntN(hosts)) }
		all := make([]waiter, 30)
		for i := range all {
			w := &all[i]
			w.host = host()
			w.ticket.account = signal.AccountID(fmt.Sprint(random.IntN(accounts)))
			w.ticket.granted = func() { w.grants++ }
		}
		for step := range 3000 {
			w := &all[random.IntN(len(all))]
			l := lane(random.IntN(int(lanes)))
			switch what := random.IntN(20); {
			case what < 8: // it has something to send
				if w.grants > 1 {
					t.Fatalf("seed %d, step %d: %d grants at once", seed, step, w.grants)
				}
				w.grants = 0
				s, entered := g.enter(&w.ticket, w.host, l)
				if w.asks = !entered; entered {
					w.slots = append(w.slots, s)
				}
			case what < 10:
				if w.asks {
					break
				}
				if s, entered := g.enterMore(&w.ticket, w.host, l); entered {
					w.slots = append(w.slots, s)
					for i := range all {
						if other := &all[i].ticket; other.place != nil && g.serves(s, other) {
							t.Fatalf("seed %d, step %d: a further slot is taken that serves one who waits", seed, step)
						}
					}
				}
			case what < 11:
				g.withdraw(&w.ticket)
				w.asks, w.grants = false, 0
			case what < 12:
				w.host = host() // its URL is another one
			default:
				if n := len(w.slots) - 1; n >= 0 {
					g.leave(w.slots[n])
					w.slots = w.slots[:n]
				}
			}
			if err := checkGate(g, all); err != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, err)
			}
		}
		for i := range all {
			g.withdraw(&all[i].ticket)
			for _, s := range all[i].slots {
				g.leave(s)
			}
		}
		if g.used != 0 || g.slowUsed != 0 || g.wanted[fastLane].Load() || g.wanted[slowLane].Load() {
			t.Errorf("seed %d: %d slots are taken at the end, %d of them in the slow lane", seed, g.used, g.slowUsed)
		}
		if n := len(g.flows) + len(g.accounts) + len(g.hosts); n != 0 {
			t.Errorf("seed %d: %d flows, accounts and hosts are kept that no endpoint has", seed, n)
		}
	}
}

// checkGate says what is wrong with a gate; nothing: empty.
func checkGate(g *gate, all []waiter) string {
	used, slow, by, slowBy := 0, 0, map[*share]int{}, map[*share]int{}
	var taken []slot
	var waiting []*ticket
	count := func(s slot) {
		used++
		if s.lane == slowLane {
			slow++
		}
		for _, share := range s.flow.shares() {
			by[share]++
			if s.lane == slowLane {
				slowBy[share]++
			}
		}
	}
	for i := range all {
		w := &all[i]
		for _, s := range w.slots {
			count(s)
		}
		taken = append(taken, w.slots...)
		switch {
		case w.ticket.holds:
			count(slot{w.ticket.flow, w.ticket.lane})
			if w.grants != 1 {
				return fmt.Sprintf("a slot was granted, and the endpoint told %d times", w.grants)
			}
		case w.ticket.place != nil:
			waiting = append(waiting, &w.ticket)
		case w.asks:
			return "one that waits is forgotten"
		}
	}
	switch {
	case used != g.used || slow != g.slowUsed:
		return fmt.Sprintf("%d slots are held, %d slow; counted are %d, %d of them slow", used, slow, g.used, g.slowUsed)
	case g.used > g.limits.total || g.slowUsed > max(1, g.limits.total/4):
		return fmt.Sprintf("%d of %d slots are taken, %d of them slow", g.used, g.limits.total, g.slowUsed)
	}
	for key, f := range g.flows {
		if g.accounts[key.account] != f.account || g.hosts[key.host] != f.host {
			return "a flow has shares that are forgotten"
		}
		for i, limit := range []int{max(1, g.limits.host/2), g.limits.host, g.limits.account} {
			if s := f.shares()[i]; s.limit != limit || s.used != by[s] || s.used > limit {
				return fmt.Sprintf("share %d of %v: %d slots of %d are counted, %d are held", i, key, s.used, limit, by[s])
			}
			if n := slowBy[f.shares()[i]]; n > max(1, limit/4) {
				return fmt.Sprintf("share %d of %v: %d slots of %d are in the slow lane", i, key, n, limit)
			}
		}
	}
	for _, t := range waiting {
		held := func(fast, limit int) bool { return fast >= limit-max(1, limit/4) }
		fast := held(used-slow, g.limits.total)
		for _, s := range t.flow.shares() {
			fast = fast || held(by[s]-slowBy[s], s.limit)
		}
		if t.lane == fastLane && !fast {
			return "a fast endpoint waits for slots that slow ones hold"
		}
	}
	return checkWaiting(g, taken, waiting)
}

// checkWaiting says what is wrong with those that wait at a gate.
func checkWaiting(g *gate, taken []slot, waiting []*ticket) string {
	for _, t := range waiting {
		if g.free(t.lane) && t.flow.full(t.lane) == nil {
			return "one waits although it could have a slot"
		}
		for _, s := range taken {
			if g.serves(s, t) && !g.asked(s) {
				return "the holder of a slot that would serve one who waits is not asked for it"
			}
		}
	}
	for _, s := range taken {
		if s.lane == fastLane && g.asked(s) && !slices.ContainsFunc(waiting, func(t *ticket) bool { return g.may(s, t) }) {
			return "a fast endpoint is asked for its slot, and only slow ones wait that have their part"
		}
	}
	return ""
}

// may reports whether t is in the fast lane, or waits for a share of s, or for a slot of
// all, of which the slow lane does not have its part.
func (g *gate) may(s slot, t *ticket) bool {
	in := t.flow.in[slowLane]
	if t.lane == fastLane || in == &t.flow.account.ready[slowLane] && g.slowFree() {
		return true
	}
	for _, share := range s.flow.shares() {
		if in == &share.blocked[slowLane] && share.slowFree() {
			return true
		}
	}
	return false
}

// serves reports whether t would have a slot if s were given back.
func (g *gate) serves(s slot, t *ticket) bool {
	count := func(n int) {
		g.count(s.lane, n)
		for _, share := range s.flow.shares() {
			share.count(s.lane, n)
		}
	}
	count(-1)
	defer count(1)
	return g.free(t.lane) && t.flow.full(t.lane) == nil
}

// roomy are the limits of a gate in which only the total counts.
func roomy(total int) gateLimits { return gateLimits{total: total, account: 1 << 20, host: 1 << 20} }

// gateWaits has a ticket wait at g, and notes its name in got when it is served.
func gateWaits(t *testing.T, g *gate, got *[]string, name string, account signal.AccountID, host string, l lane) {
	t.Helper()
	w := &ticket{account: account, granted: func() { *got = append(*got, name) }}
	if _, entered := g.enter(w, host, l); entered {
		t.Fatalf("%s found a slot", name)
	}
}

// An account with many endpoints and hosts gets its turn as one with a single endpoint
// does, in all and at a host.
func TestGateServesAccountsByTurns(t *testing.T) {
	t.Parallel()
	for name, hostOf := range map[string]func(i int) string{
		"at a gate that is full": func(i int) string { return fmt.Sprint(i % 7) },
		"at a host that is full": func(int) string { return "host" },
	} {
		g := newGate(roomy(8))
		if name == "at a host that is full" {
			g = newGate(gateLimits{total: 100, account: 100, host: 8})
		}
		var held []slot
		for i := range 8 {
			s, entered := g.enter(&ticket{account: signal.AccountID(fmt.Sprint("holder ", i))}, hostOf(i), fastLane)
			if !entered {
				t.Fatalf("%s: no slot", name)
			}
			held = append(held, s)
		}
		var got []string
		for i := range 50 {
			gateWaits(t, g, &got, "many", "many", hostOf(i), fastLane)
		}
		for i := range 3 {
			gateWaits(t, g, &got, "one", signal.AccountID(fmt.Sprint("one ", i)), hostOf(i), fastLane)
		}
		for _, s := range held[:4] {
			g.leave(s)
		}
		slices.Sort(got)
		if d := cmp.Diff([]string{"many", "one", "one", "one"}, got); d != "" {
			t.Errorf("%s: served (-want +got):\n%s", name, d)
		}
	}
}

// An account has at most half of the slots of a host.
func TestGateLeavesHalfOfAHostToOthers(t *testing.T) {
	t.Parallel()
	g := newGate(gateLimits{total: 100, account: 100, host: 8})
	var got []string
	for range 4 {
		g.enter(&ticket{account: "a"}, "host", fastLane)
	}
	gateWaits(t, g, &got, "a", "a", "host", fastLane)
	for range 4 {
		if _, entered := g.enter(&ticket{account: "b"}, "host", fastLane); !entered {
			t.Fatal("an account takes more than half of a host's slots")
		}
	}
	gateWaits(t, g, &got, "c", "c", "host", fastLane)
	if _, entered := g.enter(&ticket{account: "a"}, "another host", fastLane); !entered {
		t.Error("an account that waits for one host finds no slot for another one")
	}
}

// Slow endpoints that wait because others have all that is for the slow lane take nothing
// from a fast one: it may have further slots, and keeps them.
func TestGateKeepsSlowEndpointsApart(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]gateLimits{
		"in all":                  {total: 8, account: 100, host: 100},
		"of an account":           {total: 100, account: 8, host: 100},
		"of a host":               {total: 100, account: 100, host: 8},
		"of an account at a host": {total: 100, account: 100, host: 16},
		"of two slots":            {total: 100, account: 100, host: 4},
		"of seven slots":          {total: 7, account: 7, host: 7},
	} {
		g := newGate(limits)
		var slow, fast []slot
		waiting := 0
		for range 12 {
			if s, entered := g.enter(&ticket{account: "a"}, "host", slowLane); entered {
				slow = append(slow, s)
			} else {
				waiting++
			}
		}
		own := min(limits.total, limits.account, limits.host/2)
		if want := max(1, own/4); len(slow) != want || waiting == 0 {
			t.Errorf("%s: %d slots for slow endpoints, want %d", name, len(slow), want)
		}
		busy := &ticket{account: "a"}
		if s, entered := g.enter(busy, "host", fastLane); entered {
			fast = append(fast, s)
		}
		for range own {
			if s, entered := g.enterMore(busy, "host", fastLane); entered {
				fast = append(fast, s)
			}
		}
		if want := min(own-len(slow), limits.total-limits.total/4-len(slow)); len(fast) != want {
			t.Errorf("%s: a fast endpoint has %d slots beside %d slow ones, want %d", name, len(fast), len(slow), want)
		}
		for _, s := range fast {
			if g.asked(s) {
				t.Fatalf("%s: the slot of a fast endpoint is asked for that serves none who waits", name)
			}
		}
		if !g.asked(slow[0]) {
			t.Errorf("%s: the slot of a slow endpoint is not asked for", name)
		}
		got := 0
		next := &ticket{account: "a", granted: func() { got++ }}
		g.enter(next, "host", slowLane)
		for _, s := range fast {
			g.leave(s)
		}
		if got != 0 {
			t.Errorf("%s: a slow endpoint is served from the slots for fast ones", name)
		}
	}
}

// A flow that was woken and goes before it is served wakes the next one.
func TestGateWakesTheNextFlow(t *testing.T) {
	t.Parallel()
	g := newGate(gateLimits{total: 16, account: 16, host: 2})
	enter := func(account signal.AccountID, host string, l lane) slot {
		s, entered := g.enter(&ticket{account: account}, host, l)
		if !entered {
			t.Fatal("no slot")
		}
		return s
	}
	first, _ := enter("a", "host", fastLane), enter("b", "host", fastLane)
	served := false
	woken := &ticket{account: "c", granted: func() { t.Error("one that has gone is served") }}
	next := &ticket{account: "d", granted: func() { served = true }}
	for _, w := range []*ticket{woken, next} {
		if _, entered := g.enter(w, "host", slowLane); entered {
			t.Fatal("a host that is full has a slot")
		}
	}
	var slow slot
	for i := range 4 { // all of the slow lane
		slow = enter("e", fmt.Sprint("host ", i), slowLane)
	}
	g.leave(first)
	g.withdraw(woken)
	g.leave(slow)
	if !served {
		t.Error("one waits although its host has a slot, and its lane")
	}
}

// Those that wait are served in turn, the lanes by turns.
func TestGateIsFair(t *testing.T) {
	t.Parallel()
	g := newGate(roomy(4))
	var got []string
	var s slot
	for range 4 {
		s, _ = g.enter(&ticket{}, "", fastLane)
	}
	for i := range 3 {
		gateWaits(t, g, &got, fmt.Sprint("fast ", i), "", "", fastLane)
		gateWaits(t, g, &got, fmt.Sprint("slow ", i), "", "", slowLane)
	}
	for range 4 { // of which only one may be slow
		g.leave(s)
	}
	s.lane = slowLane
	g.leave(s)
	g.leave(s)
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
			others = append(others, w.register(func(h *delivery.Webhook) { h.CreatedAt = h.CreatedAt.Add(-time.Hour) }))
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
		w.courier.script(func(ctx context.Context, r sender.Request) sender.Result {
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
