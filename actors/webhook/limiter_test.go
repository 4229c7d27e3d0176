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

// contender is an endpoint at a limiter, in a test.
type contender struct {
	ticket waiter
	host   string // to which it sends
	asks   bool   // it waits, as far as it knows
	slots  []slot
	grants int // not yet heard of
}

// Slots are never lost, given twice or left free while somebody could use them,
// whatever endpoints do.
func TestLimiterKeepsItsSlots(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := newLimiter(limits{total: 1 + random.IntN(16), account: 1 + random.IntN(8), host: 1 + random.IntN(8)})
		accounts, hosts := 1+random.IntN(5), 1+random.IntN(5)
		host := func() string { return fmt.Sprint("host ", random.IntN(hosts)) }
		all := make([]contender, 30)
		for i := range all {
			w := &all[i]
			w.host = host()
			w.ticket.account = signal.AccountID(fmt.Sprint(random.IntN(accounts)))
			w.ticket.granted = func() { w.grants++ }
		}
		for step := range 3000 {
			w := &all[random.IntN(len(all))]
			l := class(random.IntN(int(classes)))
			switch what := random.IntN(20); {
			case what < 8: // it has something to send
				if w.grants > 1 {
					t.Fatalf("seed %d, step %d: %d grants at once", seed, step, w.grants)
				}
				w.grants = 0
				s, entered := g.acquire(&w.ticket, w.host, l)
				if w.asks = !entered; entered {
					w.slots = append(w.slots, s)
				}
			case what < 10:
				if w.asks {
					break
				}
				if s, entered := g.acquireMore(&w.ticket, w.host, l); entered {
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
					g.release(w.slots[n])
					w.slots = w.slots[:n]
				}
			}
			if err := checkLimiter(g, all); err != "" {
				t.Fatalf("seed %d, step %d: %s", seed, step, err)
			}
		}
		for i := range all {
			g.withdraw(&all[i].ticket)
			for _, s := range all[i].slots {
				g.release(s)
			}
		}
		if g.used != 0 || g.slowUsed != 0 || g.wanted[fastClass].Load() || g.wanted[slowClass].Load() {
			t.Errorf("seed %d: %d slots are taken at the end, %d of them in the slow lane", seed, g.used, g.slowUsed)
		}
		if n := len(g.flows) + len(g.accounts) + len(g.hosts); n != 0 {
			t.Errorf("seed %d: %d flows, accounts and hosts are kept that no endpoint has", seed, n)
		}
	}
}

// checkLimiter says what is wrong with a limiter; nothing: empty.
func checkLimiter(g *limiter, all []contender) string {
	used, slow, by, slowBy := 0, 0, map[*share]int{}, map[*share]int{}
	var taken []slot
	var waiting []*waiter
	count := func(s slot) {
		used++
		if s.class == slowClass {
			slow++
		}
		for _, share := range s.flow.shares() {
			by[share]++
			if s.class == slowClass {
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
			count(slot{w.ticket.flow, w.ticket.class})
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
		if t.class == fastClass && !fast {
			return "a fast endpoint waits for slots that slow ones hold"
		}
	}
	return checkWaiting(g, taken, waiting)
}

// checkWaiting says what is wrong with those that wait at a limiter.
func checkWaiting(g *limiter, taken []slot, waiting []*waiter) string {
	for _, t := range waiting {
		if g.free(t.class) && t.flow.full(t.class) == nil {
			return "one waits although it could have a slot"
		}
		for _, s := range taken {
			if g.serves(s, t) && !g.asked(s) {
				return "the holder of a slot that would serve one who waits is not asked for it"
			}
		}
	}
	for _, s := range taken {
		if s.class == fastClass && g.asked(s) && !slices.ContainsFunc(waiting, func(t *waiter) bool { return g.may(s, t) }) {
			return "a fast endpoint is asked for its slot, and only slow ones wait that have their part"
		}
	}
	return ""
}

// may reports whether t is in the fast lane, or waits for a share of s, or for a slot of
// all, of which the slow class does not have its part.
func (g *limiter) may(s slot, t *waiter) bool {
	in := t.flow.in[slowClass]
	if t.class == fastClass || in == &t.flow.account.ready[slowClass] && g.slowFree() {
		return true
	}
	for _, share := range s.flow.shares() {
		if in == &share.blocked[slowClass] && share.slowFree() {
			return true
		}
	}
	return false
}

// serves reports whether t would have a slot if s were given back.
func (g *limiter) serves(s slot, t *waiter) bool {
	count := func(n int) {
		g.count(s.class, n)
		for _, share := range s.flow.shares() {
			share.count(s.class, n)
		}
	}
	count(-1)
	defer count(1)
	return g.free(t.class) && t.flow.full(t.class) == nil
}

// roomy are the limits of a limiter in which only the total counts.
func roomy(total int) limits { return limits{total: total, account: 1 << 20, host: 1 << 20} }

// limiterWaits has a ticket wait at g, and notes its name in got when it is served.
func limiterWaits(t *testing.T, g *limiter, got *[]string, name string, account signal.AccountID, host string, l class) {
	t.Helper()
	w := &waiter{account: account, granted: func() { *got = append(*got, name) }}
	if _, entered := g.acquire(w, host, l); entered {
		t.Fatalf("%s found a slot", name)
	}
}

// An account with many endpoints and hosts gets its turn as one with a single endpoint
// does, in all and at a host.
func TestLimiterServesAccountsByTurns(t *testing.T) {
	t.Parallel()
	for name, hostOf := range map[string]func(i int) string{
		"at a gate that is full": func(i int) string { return fmt.Sprint(i % 7) },
		"at a host that is full": func(int) string { return "host" },
	} {
		g := newLimiter(roomy(8))
		if name == "at a host that is full" {
			g = newLimiter(limits{total: 100, account: 100, host: 8})
		}
		var held []slot
		for i := range 8 {
			s, entered := g.acquire(&waiter{account: signal.AccountID(fmt.Sprint("holder ", i))}, hostOf(i), fastClass)
			if !entered {
				t.Fatalf("%s: no slot", name)
			}
			held = append(held, s)
		}
		var got []string
		for i := range 50 {
			limiterWaits(t, g, &got, "many", "many", hostOf(i), fastClass)
		}
		for i := range 3 {
			limiterWaits(t, g, &got, "one", signal.AccountID(fmt.Sprint("one ", i)), hostOf(i), fastClass)
		}
		for _, s := range held[:4] {
			g.release(s)
		}
		slices.Sort(got)
		if d := cmp.Diff([]string{"many", "one", "one", "one"}, got); d != "" {
			t.Errorf("%s: served (-want +got):\n%s", name, d)
		}
	}
}

// An account has at most half of the slots of a host.
func TestLimiterLeavesHalfOfAHostToOthers(t *testing.T) {
	t.Parallel()
	g := newLimiter(limits{total: 100, account: 100, host: 8})
	var got []string
	for range 4 {
		g.acquire(&waiter{account: "a"}, "host", fastClass)
	}
	limiterWaits(t, g, &got, "a", "a", "host", fastClass)
	for range 4 {
		if _, entered := g.acquire(&waiter{account: "b"}, "host", fastClass); !entered {
			t.Fatal("an account takes more than half of a host's slots")
		}
	}
	limiterWaits(t, g, &got, "c", "c", "host", fastClass)
	if _, entered := g.acquire(&waiter{account: "a"}, "another host", fastClass); !entered {
		t.Error("an account that waits for one host finds no slot for another one")
	}
}

// Slow endpoints that wait because others have all that is for the slow class take nothing
// from a fast one: it may have further slots, and keeps them.
func TestLimiterKeepsSlowEndpointsApart(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]limits{
		"in all":                  {total: 8, account: 100, host: 100},
		"of an account":           {total: 100, account: 8, host: 100},
		"of a host":               {total: 100, account: 100, host: 8},
		"of an account at a host": {total: 100, account: 100, host: 16},
		"of two slots":            {total: 100, account: 100, host: 4},
		"of seven slots":          {total: 7, account: 7, host: 7},
	} {
		g := newLimiter(limits)
		var slow, fast []slot
		waiting := 0
		for range 12 {
			if s, entered := g.acquire(&waiter{account: "a"}, "host", slowClass); entered {
				slow = append(slow, s)
			} else {
				waiting++
			}
		}
		own := min(limits.total, limits.account, limits.host/2)
		if want := max(1, own/4); len(slow) != want || waiting == 0 {
			t.Errorf("%s: %d slots for slow endpoints, want %d", name, len(slow), want)
		}
		busy := &waiter{account: "a"}
		if s, entered := g.acquire(busy, "host", fastClass); entered {
			fast = append(fast, s)
		}
		for range own {
			if s, entered := g.acquireMore(busy, "host", fastClass); entered {
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
		next := &waiter{account: "a", granted: func() { got++ }}
		g.acquire(next, "host", slowClass)
		for _, s := range fast {
			g.release(s)
		}
		if got != 0 {
			t.Errorf("%s: a slow endpoint is served from the slots for fast ones", name)
		}
	}
}

// A flow that was woken and goes before it is served wakes the next one.
func TestLimiterWakesTheNextFlow(t *testing.T) {
	t.Parallel()
	g := newLimiter(limits{total: 16, account: 16, host: 2})
	enter := func(account signal.AccountID, host string, l class) slot {
		s, entered := g.acquire(&waiter{account: account}, host, l)
		if !entered {
			t.Fatal("no slot")
		}
		return s
	}
	first, _ := enter("a", "host", fastClass), enter("b", "host", fastClass)
	served := false
	woken := &waiter{account: "c", granted: func() { t.Error("one that has gone is served") }}
	next := &waiter{account: "d", granted: func() { served = true }}
	for _, w := range []*waiter{woken, next} {
		if _, entered := g.acquire(w, "host", slowClass); entered {
			t.Fatal("a host that is full has a slot")
		}
	}
	var slow slot
	for i := range 4 { // all of the slow class
		slow = enter("e", fmt.Sprint("host ", i), slowClass)
	}
	g.release(first)
	g.withdraw(woken)
	g.release(slow)
	if !served {
		t.Error("one waits although its host has a slot, and its lane")
	}
}

// Those that wait are served in turn, the lanes by turns.
func TestLimiterIsFair(t *testing.T) {
	t.Parallel()
	g := newLimiter(roomy(4))
	var got []string
	var s slot
	for range 4 {
		s, _ = g.acquire(&waiter{}, "", fastClass)
	}
	for i := range 3 {
		limiterWaits(t, g, &got, fmt.Sprint("fast ", i), "", "", fastClass)
		limiterWaits(t, g, &got, fmt.Sprint("slow ", i), "", "", slowClass)
	}
	for range 4 { // of which only one may be slow
		g.release(s)
	}
	s.class = slowClass
	g.release(s)
	g.release(s)
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
		w.sender.script(after(100*time.Millisecond, answers200))
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
		w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			if hanging[r.To.URL] {
				return hangs(ctx, r)
			}
			return after(10*time.Millisecond, answers200)(ctx, r)
		})
		w.start()
		pass(2 * time.Minute) // all have had three timeouts
		before := len(w.sender.sent(w.url(healthy)))
		for range 60 {
			w.emit(1)
			pass(time.Second)
			w.node.limiter.mu.Lock()
			slow := w.node.limiter.slowUsed
			w.node.limiter.mu.Unlock()
			if slow > 4 {
				t.Fatalf("%d slots of 16 in the slow lane", slow)
			}
		}
		all := w.sender.sent(w.url(healthy))[before:]
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
