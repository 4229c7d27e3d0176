package operations

import (
	"context"
	"fmt"
	"net"
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
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/http/credentials"
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
func (w *watched) send(ctx context.Context, c *e2e.Client, method, path, body string) int {
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := impatient.Do(r)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

// runs starts clients that run agents and read. It returns how to end them.
func (w *watched) runs(nodes ...*e2e.Client) (end func()) {
	var turn atomic.Int64
	return repeat(2, 50*time.Millisecond, func(ctx context.Context) {
		c := nodes[int(turn.Add(1))%len(nodes)]
		w.send(ctx, c, http.MethodPost, "/v1/agents/trading/run", e2e.RunBody("BTC", "momentum", `"timeframe":"1m"`))
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
	w.nodes[2].Signal(syscall.SIGSTOP)
	return func() { w.nodes[2].Signal(syscall.SIGCONT) }
}, true}

var wrongKeys = fault{"wrong keys", []string{"AgentsignalAuthFailures"}, func(w *watched) func() {
	wrong := w.trader.With("ask_wrong")
	return repeat(20, 100*time.Millisecond, func(ctx context.Context) {
		w.send(ctx, wrong, http.MethodGet, "/v1/account", "")
	})
}, true}

var flood = fault{"a flood of a public record", []string{"AgentsignalPagesRefused"}, func(w *watched) func() {
	anyone := w.trader.With("")
	return repeat(20, 50*time.Millisecond, func(ctx context.Context) {
		w.send(ctx, anyone, http.MethodGet, "/r/my-signals", "")
	})
}, true}

var fewDescriptors = fault{"few file descriptors", []string{"AgentsignalFileDescriptors"}, func(w *watched) func() {
	limit := func(n string) {
		w.Helper()
		pid := fmt.Sprintf("--pid=%d", w.nodes[0].Cmd.Process.Pid)
		out, err := exec.Command("prlimit", pid, "--nofile="+n+":").CombinedOutput()
		if err != nil {
			w.Fatalf("prlimit: %v: %s", err, out)
		}
	}
	const few = 300 // it has some 60
	limit(fmt.Sprint(few))
	used := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.nodes[0].Cmd.Process.Pid))
		e2e.Must(w, err)
		return len(list)
	}
	var open []*websocket.Conn
	for used() < few*88/100 {
		ws, err := dialStream(w.Context(), w.trader, websocket.DefaultDialer)
		e2e.Must(w, err)
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
func dialStream(ctx context.Context, c *e2e.Client, d *websocket.Dialer) (*websocket.Conn, error) {
	ws, _, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(c.URL, "http")+"/ws/dashboard",
		http.Header{"Authorization": {"Bearer " + c.Token}})
	return ws, err
}

// Clients come one after the other and read nothing. A signal of the content agent has 5 KB, so that the buffers of
// the kernel are full within seconds.
var slowConsumers = fault{"slow consumers", []string{"AgentsignalSlowConsumers"}, func(w *watched) func() {
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return conn, err
	}}
	const atOnce = 10
	var open []*websocket.Conn
	endClients := repeat(1, 2*time.Second, func(ctx context.Context) {
		if ws, err := dialStream(ctx, w.trader, &dialer); err == nil {
			open = append(open, ws)
		}
		if len(open) > atOnce {
			open[0].Close()
			open = open[1:]
		}
	})
	endRuns := repeat(2, 50*time.Millisecond, func(ctx context.Context) {
		w.send(ctx, w.trader, http.MethodPost, "/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post"))
	})
	return func() {
		endClients()
		endRuns()
		for _, ws := range open {
			ws.Close()
		}
	}
}, true}

// A reader that has all the connections that it may have comes back without a pause.
var readersRefused = fault{"a reader comes back without a pause", []string{"AgentsignalReadersRefused"}, func(w *watched) func() {
	_, secret, err := w.inside.Credentials().Readers.CreateReader(w.Context(), w.account, "impatient",
		credentials.NewReader{View: signal.NewView(signal.Names{}, signal.Names{}, signal.Names{}), MaxConnections: 1})
	e2e.Must(w, err)
	reader := w.trader.With(secret)
	first, err := dialStream(w.Context(), reader, websocket.DefaultDialer)
	e2e.Must(w, err)
	end := repeat(1, 100*time.Millisecond, func(ctx context.Context) {
		if ws, err := dialStream(ctx, reader, websocket.DefaultDialer); err == nil {
			ws.Close()
		}
	})
	return func() {
		end()
		first.Close()
	}
}, true}

var expiringCertificate = fault{"a certificate is not renewed", []string{"AgentsignalCertificateExpiring"},
	func(w *watched) func() {
		serve := func(days int) {
			w.Helper()
			certificateUntil(w, time.Now().AddDate(0, 0, days), w.certFile, w.keyFile)
			w.nodes[2].Signal(syscall.SIGHUP)
		}
		serve(10)
		return func() { serve(90) }
	}, true}

// hookThatFails registers a webhook whose endpoint answers 500.
func hookThatFails(w *watched) (end func()) {
	endpoint := e2e.NewFailingEndpoint(w, http.StatusInternalServerError, "")
	w.trader.Hook(endpoint.URL)
	return endpoint.Release
}

var failingEndpoint = fault{"an endpoint fails", []string{"AgentsignalWebhookFailures"},
	hookThatFails, false}

var deadEndpoint = fault{"an endpoint fails for too long", []string{"AgentsignalWebhookDisabled"},
	hookThatFails, false}

var hangingEndpoint = fault{"an endpoint hangs", []string{"AgentsignalWebhookBacklog"}, func(w *watched) func() {
	end := e2e.NewHangingEndpoint(w)
	hook := w.trader.Hook(end.URL)
	return func() {
		end.Release()
		w.trader.Do(http.MethodDelete, "/v1/webhooks/"+hook.ID, "")
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

// redisDelay is how late replies reach the second node. Keys must be read within a second.
const redisDelay = 700 * time.Millisecond

var slowRedis = fault{"a node reaches Redis slowly", []string{"AgentsignalLatencyHigh", "AgentsignalDeliveryLag"},
	func(w *watched) func() {
		live := w.second.Dial()
		w.toRedis.Delay(redisDelay)
		endReads := repeat(4, 0, func(ctx context.Context) { w.send(ctx, w.second, http.MethodGet, "/v1/webhooks", "") })
		endRuns := w.runs(w.trader)
		return func() {
			w.toRedis.Delay(0)
			endReads()
			endRuns()
			live.WS.Close()
		}
	}, true}

// While a key cannot be read within a second, requests are refused before they wait for a connection. So they wait in
// bursts, which come often enough if replies are not as late and Redis has little time for a command.
var slowRedisWithLoad = fault{"a node reaches Redis slowly and has many clients",
	[]string{"AgentsignalRedisPoolExhausted"}, func(w *watched) func() {
		w.toRedis.Delay(300 * time.Millisecond)
		end := repeat(300, 0, func(ctx context.Context) { w.send(ctx, w.second, http.MethodGet, "/v1/webhooks", "") })
		return func() {
			w.toRedis.Delay(0)
			end()
		}
	}, true}

var signalsRemoved = fault{"a signal is removed from the log", []string{"AgentsignalAuditDiffers/record"},
	func(w *watched) func() {
		e2e.Eventually(w, "a signal has lost", func() bool {
			return w.value(`sum(agentsignal_signals_closed_total{close_reason="stop_loss"})`) > 0
		})
		e2e.RemoveLosers(w.T, w.inside, w.account, 1)
		return func() {}
	}, false}

// An audit that is under way at first would replace the key at its end.
var auditsFail = fault{"what audits find cannot be read", []string{"AgentsignalAuditMissing"}, func(w *watched) func() {
	rdb, key := w.redis.Client(), w.inside.Store().Client.AuditKey(record.SigningPartition)
	end := repeat(1, time.Second, func(ctx context.Context) { rdb.Set(ctx, key, "of another type", 0) })
	return func() {
		end()
		e2e.Must(w, rdb.Del(context.Background(), key).Err())
	}
}, true}

// Deliveries that cannot be stored hold up the position of the partition's owner. Requests for so many events would
// take minutes, so the node in the process of the test appends them.
var effectsFail = fault{"deliveries of events cannot be stored",
	[]string{"AgentsignalStreamStuck", "AgentsignalStreamLag"}, func(w *watched) func() {
		hook := w.trader.Hook(e2e.NewHookEndpoint(w, nil).URL)
		store := w.inside.Store().Client
		rdb, key := w.redis.Client(), store.DeliveriesKey(store.Partition(w.account), signal.WebhookID(hook.ID))
		e2e.Must(w, rdb.Set(w.Context(), key, "of another type", 0).Err())
		for range 120 {
			events := make([]signal.Event, 100)
			for i := range events {
				events[i] = signal.Event{ID: signal.NewEventID(), Account: w.account, Type: signal.AgentStarted,
					Agent: "trading", Run: signal.NewRunID(), Data: []byte(`{}`)}
			}
			_, err := w.inside.Events().Append(w.Context(), signal.Change{Account: w.account, Events: events})
			e2e.Must(w, err)
		}
		return func() { e2e.Must(w, rdb.Del(context.Background(), key).Err()) }
	}, true}

// The log is one without leaves, which has no head. The newest checkpoint is up to a minute old at first.
var headUnreadable = fault{"the head of a log of the record cannot be read", []string{"AgentsignalRecordNotSigned"},
	func(w *watched) func() {
		store := w.inside.Store().Client
		other := (store.Partition(w.account) + 1) % store.Partitions()
		rdb, key := w.redis.Client(), store.LeafHeadKey(other)
		e2e.Must(w, rdb.RPush(w.Context(), key, "of another type").Err())
		return func() { e2e.Must(w, rdb.Del(context.Background(), key).Err()) }
	}, true}

// No fault from outside makes an actor panic or fall behind as far, so the actor is one of the test, in a node
// in its process: as all others it is supervised and measured.
var brokenActor = fault{"an actor is broken", []string{"AgentsignalActorRestarts", "AgentsignalMailboxGrowing"},
	func(w *watched) func() {
		free := make(chan struct{})
		panics := w.inside.Actors().Spawn(engine.Other, "panics", func() engine.Actor {
			return broken(func() { panic("broken by the test") })
		}, engine.Supervision{})
		hangs := w.inside.Actors().Spawn(engine.Other, "hangs", func() engine.Actor {
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
