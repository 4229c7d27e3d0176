package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// contender is an endpoint at a limiter.
type contender struct {
	waiter waiter
	host   string
	asks   bool // it waits
	slots  []slot
	grants int // not yet handled
}

// Slots are never lost, granted twice or left free while a waiter could use them.
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
			w.waiter.account = signal.AccountID(fmt.Sprint(random.IntN(accounts)))
			w.waiter.granted = func() { w.grants++ }
		}
		for step := range 3000 {
			w := &all[random.IntN(len(all))]
			l := class(random.IntN(int(classes)))
			switch action := random.IntN(20); {
			case action < 8: // it has a delivery to send
				if w.grants > 1 {
					t.Fatalf("seed %d, step %d: %d grants at once", seed, step, w.grants)
				}
				w.grants = 0
				s, entered := g.acquire(&w.waiter, w.host, l)
				if w.asks = !entered; entered {
					w.slots = append(w.slots, s)
				}
			case action < 10:
				if w.asks {
					break
				}
				if s, entered := g.acquireMore(&w.waiter, w.host, l); entered {
					w.slots = append(w.slots, s)
					for i := range all {
						if other := &all[i].waiter; other.place != nil && g.serves(s, other) {
							t.Fatalf("seed %d, step %d: another slot is taken that would serve a waiter", seed, step)
						}
					}
				}
			case action < 11:
				g.withdraw(&w.waiter)
				w.asks, w.grants = false, 0
			case action < 12:
				w.host = host() // its URL has changed
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
			g.withdraw(&all[i].waiter)
			for _, s := range all[i].slots {
				g.release(s)
			}
		}
		if g.used != 0 || g.slowUsed != 0 || g.wanted[fastClass].Load() || g.wanted[slowClass].Load() {
			t.Errorf("seed %d: %d slots are taken at the end, %d by the slow class", seed, g.used, g.slowUsed)
		}
		if n := len(g.flows) + len(g.accounts) + len(g.hosts); n != 0 {
			t.Errorf("seed %d: %d unused flows, accounts and hosts are kept", seed, n)
		}
	}
}

// checkLimiter returns a fault of a limiter, or "".
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
		case w.waiter.holds:
			count(slot{w.waiter.flow, w.waiter.class})
			if w.grants != 1 {
				return fmt.Sprintf("a slot was granted, and the endpoint notified %d times", w.grants)
			}
		case w.waiter.place != nil:
			waiting = append(waiting, &w.waiter)
		case w.asks:
			return "a waiter is forgotten"
		}
	}
	switch {
	case used != g.used || slow != g.slowUsed:
		return fmt.Sprintf("%d slots are held, %d slow; counted %d, %d slow", used, slow, g.used, g.slowUsed)
	case g.used > g.limits.total || g.slowUsed > max(1, g.limits.total/4):
		return fmt.Sprintf("%d of %d slots are taken, %d slow", g.used, g.limits.total, g.slowUsed)
	}
	for key, f := range g.flows {
		if g.accounts[key.account] != f.account || g.hosts[key.host] != f.host {
			return "a flow has dropped shares"
		}
		for i, limit := range []int{max(1, g.limits.host/2), g.limits.host, g.limits.account} {
			if s := f.shares()[i]; s.limit != limit || s.used != by[s] || s.used > limit {
				return fmt.Sprintf("share %d of %v: %d slots of %d counted, %d held", i, key, s.used, limit, by[s])
			}
			if n := slowBy[f.shares()[i]]; n > max(1, limit/4) {
				return fmt.Sprintf("share %d of %v: the slow class has %d slots of %d", i, key, n, limit)
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

// checkWaiting returns a fault with the waiters of a limiter, or "".
func checkWaiting(g *limiter, taken []slot, waiting []*waiter) string {
	for _, t := range waiting {
		if g.free(t.class) && t.flow.full(t.class) == nil {
			return "a waiter could have a slot"
		}
		for _, s := range taken {
			if g.serves(s, t) && !g.mustYield(s) {
				return "the holder of a slot that would serve a waiter is not asked for it"
			}
		}
	}
	for _, s := range taken {
		useful := func(t *waiter) bool { return g.may(s, t) }
		if s.class == fastClass && g.mustYield(s) && !slices.ContainsFunc(waiting, useful) {
			return "a fast endpoint is asked for its slot, and only slow ones wait that have their part"
		}
	}
	return ""
}

// may reports whether t is in the fast class, or waits for the limiter or a share of s in
// which the slow class has a free slot.
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

// serves reports whether t would have a slot if s were released.
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

// onlyTotal returns limits in which only the total counts.
func onlyTotal(total int) limits { return limits{total: total, account: 1 << 20, host: 1 << 20} }

// limiterWaits makes a waiter wait at g, and appends its name to got when it is served.
func limiterWaits(
	t *testing.T, g *limiter, got *[]string, name string, account signal.AccountID, host string, l class,
) {
	t.Helper()
	w := &waiter{account: account, granted: func() { *got = append(*got, name) }}
	if _, entered := g.acquire(w, host, l); entered {
		t.Fatalf("%s got a slot", name)
	}
}

// An account with many endpoints and hosts gets its turn like one with a single endpoint, at
// the limiter and at a host.
func TestLimiterServesAccountsInTurn(t *testing.T) {
	t.Parallel()
	for name, hostOf := range map[string]func(i int) string{
		"at a full limiter": func(i int) string { return fmt.Sprint(i % 7) },
		"at a full host":    func(int) string { return "host" },
	} {
		g := newLimiter(onlyTotal(8))
		if name == "at a full host" {
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

// Slow endpoints that wait because the slow class has its part take nothing from a fast
// one: it may have more slots, and keeps them.
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
			if g.mustYield(s) {
				t.Fatalf("%s: the slot of a fast endpoint is asked for, but would serve no waiter", name)
			}
		}
		if !g.mustYield(slow[0]) {
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

// Waiters are served in order, and the classes in turn.
func TestLimiterIsFair(t *testing.T) {
	t.Parallel()
	g := newLimiter(onlyTotal(4))
	var got []string
	var s slot
	for range 4 {
		s, _ = g.acquire(&waiter{}, "", fastClass)
	}
	for i := range 3 {
		limiterWaits(t, g, &got, fmt.Sprint("fast ", i), "", "", fastClass)
		limiterWaits(t, g, &got, fmt.Sprint("slow ", i), "", "", slowClass)
	}
	for range 4 { // only one may be slow
		g.release(s)
	}
	s.class = slowClass
	g.release(s)
	g.release(s)
	if first := strings.Join(got[:2], " "); !strings.Contains(first, "fast 0") || !strings.Contains(first, "slow 0") {
		t.Errorf("first: %s; want one of each class", first)
	}
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:4], b[:4]) })
	if d := cmp.Diff([]string{"fast 0", "fast 1", "fast 2", "slow 0", "slow 1", "slow 2"}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

// Endpoints that hang have at most a quarter of the slots, once they are in the slow class.
func TestHangingEndpointsLeaveTheSlotsToOthers(t *testing.T) {
	options := func(o *Options) { o.InFlight, o.Schedule.Retries = 16, []time.Duration{time.Hour} }
	withHarnessOptions(t, options, func(t *testing.T, h *harness) {
		hanging := map[string]bool{}
		for range 12 {
			id := h.register()
			hanging[h.url(id)] = true
			h.backlogged(id, 60)
		}
		healthy := h.register()
		h.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			if hanging[r.To.URL] {
				return hangs(ctx, r)
			}
			return after(10*time.Millisecond, answers200)(ctx, r)
		})
		h.start()
		pass(2 * time.Minute) // all have had three timeouts
		before := len(h.sender.sent(h.url(healthy)))
		for range 60 {
			h.emit(1)
			pass(time.Second)
			h.node.limiter.mu.Lock()
			slow := h.node.limiter.slowUsed
			h.node.limiter.mu.Unlock()
			if slow > 4 {
				t.Fatalf("the slow class has %d slots of 16", slow)
			}
		}
		all := h.sender.sent(h.url(healthy))[before:]
		for _, s := range all {
			if late := s.At.Sub(h.store.delivery(s.Delivery).CreatedAt); late > 100*time.Millisecond {
				t.Errorf("a healthy endpoint waits %v", late)
			}
		}
		if len(all) != 60 {
			t.Errorf("%d requests, want 60", len(all))
		}
	})
}
