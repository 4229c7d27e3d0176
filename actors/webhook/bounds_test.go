package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// traffic counts the requests that are under way, by account and by host.
type traffic struct {
	mu        sync.Mutex
	accounts  map[string]signal.AccountID // by URL
	now, most map[string]int
}

func newTraffic() *traffic {
	return &traffic{accounts: map[string]signal.AccountID{}, now: map[string]int{}, most: map[string]int{}}
}

// through counts what answer answers.
func (c *traffic) through(answer func(context.Context, sender.Request) sender.Result) func(context.Context, sender.Request) sender.Result {
	return func(ctx context.Context, r sender.Request) sender.Result {
		u, _ := url.Parse(r.To.URL)
		account, host := "account "+string(c.accounts[r.To.URL]), "host "+u.Hostname()
		c.add(1, "all", account, host, account+" at "+host)
		defer c.add(-1, "all", account, host, account+" at "+host)
		return answer(ctx, r)
	}
}

func (c *traffic) add(n int, keys ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		c.now[k] += n
		c.most[k] = max(c.most[k], c.now[k])
	}
}

// peak returns how many requests were under way at once at most.
func (c *traffic) peak(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[key]
}

// All webhooks of an account with one host together send no more requests at once to it
// than half of what the host gets from all accounts, whatever their paths and ports are.
func TestAHostGetsFewRequestsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newTraffic()
		hosts := []string{"victim.example", "Victim.Example", "victim.example.", "victim.example:8443"}
		owners := []signal.AccountID{w.account, signal.NewAccountID(), signal.NewAccountID()}
		var hooks []signal.WebhookID
		for i := range 300 {
			hooks = append(hooks, w.register(func(h *delivery.Webhook) {
				h.Account = owners[i%len(owners)]
				h.URL = fmt.Sprintf("https://%s/%d", hosts[i%len(hosts)], i)
			}))
		}
		w.sender.script(func(ctx context.Context, r sender.Request) sender.Result {
			c.add(1, "all")
			defer c.add(-1, "all")
			return after(time.Second, answers200)(ctx, r)
		})
		w.start()
		for _, owner := range owners {
			for range 10 {
				w.emitAs(owner)
			}
		}
		pass(5 * time.Second)
		if most := c.peak("all"); most != DefaultHostConcurrency {
			t.Errorf("%d requests at once to a host, want %d", most, DefaultHostConcurrency)
		}
		pass(2 * time.Minute)
		all := 0
		for _, id := range hooks {
			all += w.store.statuses(id)["succeeded"]
		}
		if all != 3000 {
			t.Errorf("%d deliveries have succeeded, want 3000", all)
		}
	})
}

// A webhook that gets another URL takes slots of the new host for what it sends there, in
// the middle of its queue.
func TestAMovedWebhookTakesSlotsOfItsNewHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.HostConcurrency = 4 })
		c := newTraffic()
		w.sender.script(c.through(after(time.Second, answers200)))
		at := func(url string) signal.WebhookID {
			return w.register(func(h *delivery.Webhook) { h.URL = url })
		}
		moved, stays := at("https://old.example/1"), at("https://new.example/2")
		w.start()
		w.emit(60)
		pass(5500 * time.Millisecond)
		w.store.set(func() {
			hook := w.store.webhooks[moved]
			hook.URL = "https://new.example/1"
			w.store.save(hook)
		})
		pass(3 * time.Minute)
		if n := c.peak("host new.example"); n != 2 {
			t.Errorf("%d requests at once to the new host, want 2", n)
		}
		for _, id := range []signal.WebhookID{moved, stays} {
			w.statuses(id, map[string]int{"succeeded": 60})
		}
	})
}

// emitAs appends an event signal.created of an account.
func (w *world) emitAs(account signal.AccountID) {
	w.store.set(func() {
		w.store.append(signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SignalCreated, Data: []byte(`{"n":1}`)})
	})
}

// Whoever sends what to whom, and whichever endpoints hang or move: the bounds hold, all
// is delivered in the end, and no slot is lost.
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
	w := newWorld(t, func(o *Options) {
		o.InFlight, o.AccountConcurrency, o.HostConcurrency = limits.total, limits.account, limits.host
		o.Schedule.Retries = []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute, time.Minute, time.Minute}
	})
	owners := make([]signal.AccountID, 1+random.IntN(4))
	for i := range owners {
		owners[i] = signal.NewAccountID()
	}
	hosts := 1 + random.IntN(4)
	c := newTraffic()
	hanging := map[string]bool{}
	path := 0
	aim := func(h *delivery.Webhook) {
		path++
		h.URL = fmt.Sprintf("https://host%d.example/%d", random.IntN(hosts), path)
		c.accounts[h.URL] = h.Account
		hanging[h.URL] = random.IntN(4) == 0
	}
	var healed sync.Once
	well := make(chan struct{})
	defer healed.Do(func() { close(well) })
	w.sender.script(c.through(func(ctx context.Context, r sender.Request) sender.Result {
		select {
		case <-well:
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
		hooks[owner] = append(hooks[owner], w.register(func(h *delivery.Webhook) {
			h.Account = owner
			aim(h)
		}))
	}
	for i := range 20 { // where some move to
		hanging[fmt.Sprintf("https://host%d.example/moved/%d", i%hosts, i)] = i%5 == 0
	}
	w.start()
	events := map[signal.AccountID]int{}
	for round := range 20 {
		owner := owners[random.IntN(len(owners))]
		for range random.IntN(10) {
			w.emitAs(owner)
			events[owner]++
		}
		pass(time.Duration(random.IntN(3000)) * time.Millisecond)
		w.idles(limits)
		if list := hooks[owner]; len(list) > 0 {
			id, to := list[random.IntN(len(list))], fmt.Sprintf("https://host%d.example/moved/%d", round%hosts, round)
			c.accounts[to] = owner
			w.store.set(func() {
				hook := w.store.webhooks[id]
				hook.URL = to
				w.store.save(hook)
			})
		}
	}
	healed.Do(func() { close(well) })
	pass(20 * time.Minute)
	for owner, list := range hooks {
		for _, id := range list {
			if got := w.store.statuses(id); got["succeeded"] != events[owner] {
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

// idles checks that no endpoint waits for a slot that is free.
func (w *world) idles(limits limits) {
	w.t.Helper()
	g := w.node.limiter
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, f := range g.flows {
		for l := range classes {
			if f.waiting[l].Len() > 0 && g.free(l) && f.full(l) == nil {
				w.t.Errorf("%v waits in lane %d with %d of %d slots taken", key, l, g.used, limits.total)
			}
		}
	}
}
