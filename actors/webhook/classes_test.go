package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Endpoints that hang at real receivers use up their slots of a share. Fast endpoints with
// the same share get their deliveries while those requests are in flight.
func TestFastEndpointsOvertakeHangingOnes(t *testing.T) {
	t.Parallel()
	const a, b, c = "acc_a", "acc_b", "acc_c"
	tests := map[string]struct {
		host, account int // limits
		hanging       []signal.AccountID
		hangingHost   string
		fast          signal.AccountID
		held          int // slots by hanging ones
	}{
		"of the same account at the same host": {16, 1000, []signal.AccountID{a}, "127.0.0.1", a, 2},
		"of another account at the same host":  {16, 1000, []signal.AccountID{a, b}, "127.0.0.1", c, 4},
		"of the same account at another host":  {1000, 8, []signal.AccountID{a}, "localhost", a, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const slowEach, fastEndpoints, events = 12, 3, 20
			r := newReceiver(t)
			w := newWorld(t, func(o *Options) {
				o.HostConcurrency, o.AccountConcurrency = test.host, test.account
				o.Schedule.Retries = []time.Duration{time.Hour}
			})
			w.node.sender = r
			w.run()
			for _, account := range test.hanging {
				for i := range slowEach {
					w.registerAt(account, r.url(test.hangingHost, fmt.Sprintf("/hangs/%s/%d", account, i)))
				}
				for range DefaultConcurrency + 1 {
					w.emitAs(account)
				}
			}
			slow := slowEach * len(test.hanging)
			held := 0
			r.await("all hanging ones hold a slot or wait for one", func() bool {
				used, waiting := w.slowClass()
				held = used
				return used+waiting == slow && int(r.hanging.Load()) == used
			})
			if held != test.held {
				t.Errorf("%d hanging endpoints hold %d slots, want %d", slow, held, test.held)
			}
			for i := range fastEndpoints {
				w.registerAt(test.fast, r.url("127.0.0.1", fmt.Sprintf("/fast/%d", i)))
			}
			for range events {
				w.emitAs(test.fast)
			}
			const want = fastEndpoints * events
			r.await("the fast endpoints have all deliveries", func() bool { return r.got.Load() == want })
			t.Logf("%d of %d fast deliveries while %d slots are held", r.got.Load(), want, r.hanging.Load())
			if now := int(r.hanging.Load()); now != held {
				t.Errorf("%d slots are held by hanging endpoints, want the same %d", now, held)
			}
		})
	}
}

// receiver is a server with fast and hanging endpoints, and the Sender to it.
type receiver struct {
	t       *testing.T
	port    string
	got     atomic.Int64 // deliveries to fast endpoints
	hanging atomic.Int64 // attempts that end only with the test

	// brief times out soon, so that a hanging endpoint gets to the slow class.
	brief, patient *sender.Sender
	mu             sync.Mutex
	attempts       map[string]int // by URL
}

func newReceiver(t *testing.T) *receiver {
	ended := make(chan struct{})
	r := &receiver{
		t:        t,
		attempts: map[string]int{},
		brief:    localSender(t, sender.Options{Timeout: 50 * time.Millisecond}),
		patient:  localSender(t, sender.Options{Timeout: time.Hour, ConnectTimeout: time.Minute}),
	}
	server := localServer(t, func(_ http.ResponseWriter, request *http.Request) {
		if strings.HasPrefix(request.URL.Path, "/hangs") {
			<-ended
			return
		}
		r.got.Add(1)
	})
	t.Cleanup(func() { close(ended) })
	r.port = server.URL[strings.LastIndex(server.URL, ":"):]
	return r
}

func (r *receiver) url(host, path string) string { return "http://" + host + r.port + path }

// Send implements Sender.
func (r *receiver) Send(ctx context.Context, request sender.Request) sender.Result {
	if !strings.Contains(request.To.URL, "/hangs") {
		return r.patient.Send(ctx, request)
	}
	r.mu.Lock()
	r.attempts[request.To.URL]++
	n := r.attempts[request.To.URL]
	r.mu.Unlock()
	if n <= DefaultConcurrency { // those begun before three have timed out
		return r.brief.Send(ctx, request)
	}
	r.hanging.Add(1)
	defer r.hanging.Add(-1)
	return r.patient.Send(ctx, request)
}

// await waits for a condition.
func (r *receiver) await(name string, condition func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not reached: %s; %d fast deliveries, %d attempts hang", name, r.got.Load(), r.hanging.Load())
		}
	}
}

// registerAt adds a webhook of an account.
func (w *world) registerAt(account signal.AccountID, url string) {
	w.register(func(h *delivery.Webhook) { h.Account, h.URL, h.CreatedAt = account, url, h.CreatedAt.Add(-time.Hour) })
}

// slowClass returns the number of slots of the slow class, and of endpoints that wait for one.
func (w *world) slowClass() (used, waiting int) {
	g := w.node.limiter
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.flows {
		waiting += f.waiting[slowClass].Len()
	}
	return g.slowUsed, waiting
}
