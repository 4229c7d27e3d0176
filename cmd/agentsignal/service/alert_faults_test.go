package service

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/engine"
)

// fault is something that goes wrong. make makes it and returns how to end it; until then it lasts.
type fault struct {
	name   string
	alerts []string // see watched.firing
	make   func(w *watched) (end func())
	stops  bool // the alerts stop soon after the end
}

// repeat calls f again and again, in n goroutines with a pause after each call, until the function that it
// returns is called.
func repeat(n int, pause time.Duration, f func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				f(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// impatient is for requests that may fail.
var impatient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// send sends a request whatever becomes of it. It returns the status, or 0.
func (w *watched) send(ctx context.Context, c *client, method, path, body string) int {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := impatient.Do(r)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// runs starts clients that run agents and read. It returns how to end them.
func (w *watched) runs(nodes ...*client) (end func()) {
	var turn atomic.Int64
	return repeat(2, 50*time.Millisecond, func(ctx context.Context) {
		c := nodes[int(turn.Add(1))%len(nodes)]
		w.send(ctx, c, http.MethodPost, "/v1/agents/trading/run", runBody("BTC", "momentum", `"timeframe":"1m"`))
		w.send(ctx, c, http.MethodGet, "/v1/webhooks", "")
	})
}

var redisHangs = fault{"Redis hangs", []string{"AgentsignalNotReady", "AgentsignalErrorRatioHigh", "AgentsignalRedisErrors",
	"AgentsignalPartitionsUnowned", "AgentsignalNoMarketFeeder"}, func(w *watched) func() {
	w.redis.Pause()
	ends := repeat(20, 0, func(ctx context.Context) { w.send(ctx, w.trader, http.MethodGet, "/v1/webhooks", "") })
	return func() {
		w.redis.Continue()
		ends()
	}
}, true}

var nodeHangs = fault{"a node hangs", []string{"AgentsignalDown"}, func(w *watched) func() {
	w.nodes[2].signal(syscall.SIGSTOP)
	return func() { w.nodes[2].signal(syscall.SIGCONT) }
}, true}

var wrongKeys = fault{"wrong keys", []string{"AgentsignalAuthFailures"}, func(w *watched) func() {
	wrong := w.trader.with("ask_wrong")
	return repeat(20, 100*time.Millisecond, func(ctx context.Context) {
		w.send(ctx, wrong, http.MethodGet, "/v1/account", "")
	})
}, true}

var fewDescriptors = fault{"few file descriptors", []string{"AgentsignalFileDescriptors"}, func(w *watched) func() {
	limit := func(n string) {
		w.Helper()
		pid := fmt.Sprintf("--pid=%d", w.nodes[0].cmd.Process.Pid)
		out, err := exec.Command("prlimit", pid, "--nofile="+n+":").CombinedOutput()
		if err != nil {
			w.Fatalf("prlimit: %v: %s", err, out)
		}
	}
	const few = 300 // it has some 60
	limit(fmt.Sprint(few))
	used := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.nodes[0].cmd.Process.Pid))
		must(w, err)
		return len(list)
	}
	var open []*websocket.Conn
	for used() < few*88/100 {
		ws, err := dialStream(w.Context(), w.trader, websocket.DefaultDialer)
		must(w, err)
		open = append(open, ws)
	}
	return func() {
		for _, ws := range open {
			ws.Close()
		}
		limit("4096")
	}
}, true}

// dialStream opens a stream that is not read.
func dialStream(ctx context.Context, c *client, d *websocket.Dialer) (*websocket.Conn, error) {
	ws, _, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(c.url, "http")+"/ws/dashboard",
		http.Header{"Authorization": {"Bearer " + c.token}})
	return ws, err
}

var expiringCertificate = fault{"a certificate is not renewed", []string{"AgentsignalCertificateExpiring"},
	func(w *watched) func() {
		serve := func(days int) {
			w.Helper()
			certificateUntil(w, time.Now().AddDate(0, 0, days), w.certFile, w.keyFile)
			w.nodes[2].signal(syscall.SIGHUP)
		}
		serve(10)
		return func() { serve(90) }
	}, true}

var failingEndpoint = fault{"an endpoint fails", []string{"AgentsignalWebhookFailures"},
	func(w *watched) func() {
		end := newFailingEndpoint(w, http.StatusInternalServerError, "")
		w.trader.hook(end.url)
		return end.release
	}, false}

var hangingEndpoint = fault{"an endpoint hangs", []string{"AgentsignalWebhookBacklog"}, func(w *watched) func() {
	end := newHangingEndpoint(w)
	hook := w.trader.hook(end.url)
	return func() {
		end.release()
		w.trader.do(http.MethodDelete, "/v1/webhooks/"+hook.ID, "")
	}
}, true}

var weatherFails = fault{"the source of the weather fails", []string{"AgentsignalRunFailures"}, func(w *watched) func() {
	return repeat(2, 100*time.Millisecond, func(ctx context.Context) {
		w.send(ctx, w.trader, http.MethodPost, "/v1/agents/weather/run",
			`{"asset":"natural_gas","strategy":"energy_demand","parameters":{"region":"us"}}`)
	})
}, false}

var replicaHangs = fault{"the replica hangs", []string{"AgentsignalReplicasMissing"}, func(w *watched) func() {
	w.replica.Pause()
	return w.replica.Continue
}, true}

// No fault from outside makes an actor panic or fall behind as far, so the actor is one of the test, in a node
// in its process: as all others it is supervised and measured.
var brokenActor = fault{"an actor is broken", []string{"AgentsignalActorRestarts", "AgentsignalMailboxGrowing"},
	func(w *watched) func() {
		free := make(chan struct{})
		panics := w.inside.process.system.Spawn(engine.Other, "panics", func() engine.Actor {
			return broken(func() { panic("broken by the test") })
		}, engine.Supervision{})
		hangs := w.inside.process.system.Spawn(engine.Other, "hangs", func() engine.Actor {
			return broken(func() { <-free })
		}, engine.Supervision{})
		for range 5 {
			panics.Tell(work{})
		}
		for range 6000 {
			hangs.Tell(work{})
		}
		return func() { close(free) }
	}, true}

// broken is an actor that does something for each work.
type broken func()

type work struct{}

// Receive implements engine.Actor.
func (b broken) Receive(c engine.Context) {
	if _, ok := c.Message().(work); ok {
		b()
	}
}
