package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// traffic counts the requests in flight, by account and by host.
type traffic struct {
	mu         sync.Mutex
	accounts   map[string]signal.AccountID // by URL
	now, peaks map[string]int
}

func newTraffic() *traffic {
	return &traffic{accounts: map[string]signal.AccountID{}, now: map[string]int{}, peaks: map[string]int{}}
}

// count counts the requests that a answers.
func (c *traffic) count(a answer) answer {
	return func(ctx context.Context, r sender.Request) sender.Result {
		u, _ := url.Parse(r.To.URL)
		account, host := "account "+string(c.accounts[r.To.URL]), "host "+u.Hostname()
		c.add(1, "all", account, host, account+" at "+host)
		defer c.add(-1, "all", account, host, account+" at "+host)
		return a(ctx, r)
	}
}

func (c *traffic) add(n int, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		c.now[k] += n
		c.peaks[k] = max(c.peaks[k], c.now[k])
	}
}

// peak returns the maximum of concurrent requests.
func (c *traffic) peak(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peaks[key]
}

// With random senders, and endpoints that hang or move, the bounds hold, everything is
// delivered in the end, and no slot is lost.
func TestBoundsHoldWhateverHangs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { boundsHold(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func boundsHold(t *testing.T, random *rand.Rand) {
	limits := limits{total: 4 + random.IntN(40), account: 1 + random.IntN(20), host: 1 + random.IntN(12)}
	h := newHarness(t, func(o *Options) {
		o.InFlight, o.AccountConcurrency, o.HostConcurrency = limits.total, limits.account, limits.host
		o.Schedule.Retries = slices.Repeat([]time.Duration{time.Minute}, 6)
	})
	owners := make([]signal.AccountID, 1+random.IntN(4))
	for i := range owners {
		owners[i] = signal.NewAccountID()
	}
	hosts := 1 + random.IntN(4)
	c := newTraffic()
	hanging := map[string]bool{}
	path := 0
	setURL := func(hook *delivery.Webhook) {
		path++
		hook.URL = fmt.Sprintf("https://host%d.example/%d", random.IntN(hosts), path)
		c.accounts[hook.URL] = hook.Account
		hanging[hook.URL] = random.IntN(4) == 0
	}
	var healed sync.Once
	healthy := make(chan struct{})
	defer healed.Do(func() { close(healthy) })
	h.sender.script(c.count(func(ctx context.Context, r sender.Request) sender.Result {
		select {
		case <-healthy:
		default:
			if hanging[r.To.URL] {
				return hangs(ctx, r)
			}
		}
		return after(100*time.Millisecond, answers200)(ctx, r)
	}))
	hooks := map[signal.AccountID][]signal.WebhookID{}
	for range 5 + random.IntN(25) {
		owner := owners[random.IntN(len(owners))]
		hooks[owner] = append(hooks[owner], h.register(func(hook *delivery.Webhook) {
			hook.Account = owner
			setURL(hook)
		}))
	}
	for i := range 20 { // the URLs of moved ones
		hanging[fmt.Sprintf("https://host%d.example/moved/%d", i%hosts, i)] = i%5 == 0
	}
	h.start()
	events := map[signal.AccountID]int{}
	for round := range 20 {
		owner := owners[random.IntN(len(owners))]
		for range random.IntN(10) {
			h.emitAs(owner)
			events[owner]++
		}
		pass(time.Duration(random.IntN(3000)) * time.Millisecond)
		h.idles(limits)
		if list := hooks[owner]; len(list) > 0 {
			id, to := list[random.IntN(len(list))], fmt.Sprintf("https://host%d.example/moved/%d", round%hosts, round)
			c.accounts[to] = owner
			h.store.change(id, func(hook *delivery.Webhook) { hook.URL = to })
		}
	}
	healed.Do(func() { close(healthy) })
	pass(20 * time.Minute)
	for owner, list := range hooks {
		for _, id := range list {
			if got := h.store.statuses(id); got["succeeded"] != events[owner] {
				t.Errorf("deliveries: %v, want %d that have succeeded", got, events[owner])
			}
		}
	}
	bounds := map[string]int{"all": limits.total}
	for i := range hosts {
		host := fmt.Sprintf("host host%d.example", i)
		bounds[host] = limits.host
		for _, owner := range owners {
			bounds["account "+string(owner)] = limits.account
			bounds["account "+string(owner)+" at "+host] = max(1, limits.host/2)
		}
	}
	for key, bound := range bounds {
		if n := c.peak(key); n > bound {
			t.Errorf("%s: %d requests at once, want at most %d", key, n, bound)
		}
	}
}

// idles checks that no endpoint waits for a free slot.
func (h *harness) idles(limits limits) {
	h.t.Helper()
	g := h.node.limiter
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, f := range g.flows {
		for l := range classes {
			if f.waiting[l].Len() > 0 && g.free(l) && f.full(l) == nil {
				h.t.Errorf("%v waits in class %d with %d of %d slots taken", key, l, g.used, limits.total)
			}
		}
	}
}
