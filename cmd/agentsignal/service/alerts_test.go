package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// watched is a service of several nodes with clients, and a Prometheus that scrapes the nodes. Three nodes are
// processes, of which clients use two and the third has TLS. A fourth is in the process of the test, for what
// cannot be done from outside.
type watched struct {
	*testing.T
	redis, replica    *redistest.Server
	nodes             [3]*child
	inside            *service
	certFile, keyFile string
	trader            *client // of the first node
	second            *client
	prometheus        string // http://host:port
}

// newBrokenWeather starts a source of the weather that fails, and returns its address.
func newBrokenWeather(tb testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "broken", http.StatusInternalServerError)
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// newWatched starts everything, and waits until Prometheus has all nodes as ready.
func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{T: t, redis: redistest.New(t), replica: redistest.New(t)}
	weather := newBrokenWeather(t)
	w.replica.Follow(w.redis)
	dir := t.TempDir()
	w.certFile, w.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificateUntil(t, time.Now().AddDate(0, 0, 90), w.certFile, w.keyFile)

	settings := []string{"CLUSTER=true", "AUTH_JWT_KEYS=" + sharedKeys, "SECURITY_ENCRYPTION_KEYS=" + sharedKeys,
		"SECURITY_RECORD_KEYS=" + sharedRecordKey(t), "MARKET_SOURCE=simulated", "MARKET_SPEED=600",
		"WEATHER_SOURCE=open_meteo", "WEATHER_FORECAST_URL=" + weather, "WEATHER_ARCHIVE_URL=" + weather,
		"REDIS_WAIT_REPLICAS=1", "REDIS_TIMEOUT=4s", "RUNS_TIMEOUT=20s",
		"WEBHOOKS_ALLOWED_NETWORKS=" + loopback, "WEBHOOKS_RETRY_SCHEDULE=1s,1s,1s,1s,1s,1s",
		"AUDIT_EVERY=0"}
	for i := range w.nodes {
		own := slices.Clone(settings)
		if i == 2 {
			own = append(own, "TLS_CERT_FILE="+w.certFile, "TLS_KEY_FILE="+w.keyFile)
		}
		w.nodes[i] = launch(t, childSettings(t, w.redis.URL(), own...)...)
	}
	w.nodes[2].url = "https" + strings.TrimPrefix(w.nodes[2].url, "http")

	c := testConfig(t, w.redis.URL())
	c.Cluster, c.Lease, c.Redis.WaitReplicas = true, configs.Duration(5*time.Second), 1
	c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(sharedKeys)
	c.Security.RecordKeys = configs.Secret(sharedRecordKey(t))
	c.Market.Source, c.Market.Speed = "simulated", 600
	c.Weather.Source, c.Weather.ForecastURL, c.Weather.ArchiveURL = "open_meteo", weather, weather
	c.Webhooks.AllowedNetworks = []string{loopback}
	w.inside = start(t, c)
	t.Cleanup(func() { // what the faults provoke
		for _, n := range w.nodes {
			n.log.Forget(`"level":"ERROR"`)
		}
		w.inside.log.Forget(`"level":"ERROR"`)
	})
	trader, _ := w.inside.account(t)
	w.trader, w.second = trader.at(w.nodes[0].url), trader.at(w.nodes[1].url)
	w.startPrometheus()
	eventually(t, "all nodes are ready", func() bool { return w.value(`sum(agentsignal_ready)`) == 4 })
	return w
}

// startPrometheus starts one that scrapes each node, and evaluates the scaled rules, every second.
func (w *watched) startPrometheus() {
	w.Helper()
	program, err := exec.LookPath("prometheus")
	must(w, err)
	dir := w.TempDir()
	rules, err := yaml.Marshal(scaledRules(w))
	must(w, err)
	must(w, os.WriteFile(filepath.Join(dir, "rules.yml"), rules, 0o600))
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n" +
		"scrape_configs:\n- job_name: agentsignal\n  tls_config: {insecure_skip_verify: true}\n  static_configs:\n"
	for _, target := range []string{w.nodes[0].url, w.nodes[1].url, w.nodes[2].url, w.inside.url} {
		scheme, address, _ := strings.Cut(target, "://")
		config += fmt.Sprintf("  - {targets: [%q], labels: {__scheme__: %s}}\n", address, scheme)
	}
	must(w, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	p := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--web.listen-address=127.0.0.1:0",
		"--storage.tsdb.path="+filepath.Join(dir, "data"))
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log journal
	p.Stdout, p.Stderr = &log, &log
	must(w, p.Start())
	w.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
		if w.Failed() {
			w.Logf("end of the log of Prometheus:\n%s", log.Newest())
		}
	})
	eventually(w, "Prometheus listens", func() bool {
		line := log.Line(`msg="Listening on"`)
		_, address, ok := strings.Cut(strings.TrimSpace(line), "address=")
		w.prometheus = "http://" + address
		return ok && strings.HasSuffix(line, "\n")
	})
}

// ask reads the member data of an answer of Prometheus. It reports whether there is one.
func (w *watched) ask(path string, data any) bool {
	w.Helper()
	r, err := http.Get(w.prometheus + "/api/v1/" + path)
	if err != nil {
		return false // it begins to serve
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if r.StatusCode == http.StatusServiceUnavailable {
		return false
	}
	must(w, json.NewDecoder(r.Body).Decode(&answer))
	if answer.Status != "success" {
		w.Fatalf("Prometheus answers %s with %s", path, answer.Error)
	}
	return true
}

// query returns the values of an expression, as texts.
func (w *watched) query(expr string) (values []string) {
	w.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	w.ask("query?query="+url.QueryEscape(expr), &data)
	for _, r := range data.Result {
		values = append(values, r.Value[1].(string))
	}
	return values
}

// value returns the value of an expression, or -1 if there is none.
func (w *watched) value(expr string) float64 {
	w.Helper()
	values := w.query(expr)
	if len(values) == 0 {
		return -1
	}
	var v float64
	_, err := fmt.Sscan(values[0], &v)
	must(w, err)
	return v
}

// alert is an alert that Prometheus has.
type alert struct {
	State       string
	Labels      map[string]string
	Annotations map[string]string
}

// firing returns the summaries of the alert's instances that fire.
func (w *watched) firing(name string) (summaries []string) {
	w.Helper()
	var data struct{ Alerts []alert }
	w.ask("alerts", &data)
	for _, a := range data.Alerts {
		if a.Labels["alertname"] == name && a.State == "firing" {
			summaries = append(summaries, a.Annotations["summary"])
		}
	}
	return summaries
}

// fault is something that goes wrong. make makes it and returns how to end it; until then it lasts.
type fault struct {
	name   string
	alerts []string
	make   func(w *watched) (end func())
	stops  bool // the alerts stop soon after the end
}

// suffers makes faults at the same time: their alerts do not fire before, fire while they last, and stop.
func (w *watched) suffers(faults ...fault) {
	w.Helper()
	for _, f := range faults {
		for _, a := range f.alerts {
			eventually(w, a+" does not fire before "+f.name, func() bool { return len(w.firing(a)) == 0 })
		}
	}
	ends := make([]func(), len(faults))
	began := time.Now()
	for i, f := range faults {
		ends[i] = sync.OnceFunc(f.make(w))
		defer ends[i]() // if the test fails
	}
	for i, f := range faults {
		for _, a := range f.alerts {
			eventually(w, a+" fires because of "+f.name, func() bool {
				summaries := w.firing(a)
				if len(summaries) > 0 {
					w.Logf("%s after %s: %s: %s", f.name, time.Since(began).Round(time.Second), a, summaries[0])
				}
				return len(summaries) > 0
			})
		}
		ends[i]()
	}
	for _, f := range faults {
		if !f.stops {
			continue
		}
		for _, a := range f.alerts {
			eventually(w, a+" stops after "+f.name, func() bool { return len(w.firing(a)) == 0 })
		}
	}
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

// TestAlerts makes the faults that take least time; with TEST_ALERTS, more.
func TestAlerts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Log("prometheus is not installed: no alert is tested")
		return
	}
	w := newWatched(t)
	defer w.runs(w.trader, w.second)()
	w.suffers(fewDescriptors)
	w.suffers(wrongKeys, nodeHangs)
	w.suffers(redisHangs)
	if os.Getenv("TEST_ALERTS") == "" {
		return
	}
	w.suffers(replicaHangs)
	w.suffers(brokenActor)
	w.suffers(expiringCertificate, failingEndpoint, hangingEndpoint, weatherFails)
}
