package operations

import (
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
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// watched is a service of several nodes with clients, and a Prometheus that scrapes the nodes. Three nodes are
// processes, of which clients use two; the second reaches Redis through a proxy, and the third has TLS. A fourth
// is in the process of the test, for what cannot be done from outside.
type watched struct {
	*testing.T
	redis, replica    *redistest.Server
	toRedis           *redistest.Proxy // of the second node
	nodes             [3]*e2e.Child
	inside            *e2e.Service
	certFile, keyFile string
	trader            *e2e.Client // of the first node
	second            *e2e.Client // of the second node, of the same account
	account           signal.AccountID
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

// newWatched starts everything, with settings of all nodes as launch takes them, and waits until Prometheus has all
// nodes as ready.
func newWatched(t *testing.T, settings ...string) *watched {
	t.Helper()
	w := &watched{T: t, redis: redistest.New(t), replica: redistest.New(t)}
	weather := newBrokenWeather(t)
	w.replica.Follow(w.redis)
	w.toRedis = redistest.NewProxy(t, w.redis)
	dir := t.TempDir()
	w.certFile, w.keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificateUntil(t, time.Now().AddDate(0, 0, 90), w.certFile, w.keyFile)

	settings = slices.Concat([]string{"CLUSTER=true", "AUTH_JWT_KEYS=" + e2e.SharedKeys,
		"SECURITY_ENCRYPTION_KEYS=" + e2e.SharedKeys, "SECURITY_RECORD_KEYS=" + e2e.SharedRecordKey(t),
		"MARKET_SOURCE=simulated", "MARKET_SPEED=600",
		"WEATHER_SOURCE=open_meteo", "WEATHER_FORECAST_URL=" + weather, "WEATHER_ARCHIVE_URL=" + weather,
		"REDIS_WAIT_REPLICAS=1", "REDIS_TIMEOUT=4s", "RUNS_TIMEOUT=20s",
		"WEBHOOKS_ALLOWED_NETWORKS=" + e2e.Loopback, "WEBHOOKS_RETRY_SCHEDULE=1s,1s,1s,1s,1s,1s",
		"AUDIT_EVERY=0"}, settings)
	tls := []string{"TLS_CERT_FILE=" + w.certFile, "TLS_KEY_FILE=" + w.keyFile}
	w.nodes = [3]*e2e.Child{
		e2e.Launch(t, e2e.ChildSettings(t, w.redis.URL(), settings...)...),
		e2e.Launch(t, e2e.ChildSettings(t, w.toRedis.URL(), settings...)...),
		e2e.Launch(t, e2e.ChildSettings(t, w.redis.URL(), append(tls, settings...)...)...),
	}
	w.nodes[2].URL = "https" + strings.TrimPrefix(w.nodes[2].URL, "http")

	// The node in the process of the test makes the account, so it is patient with Redis.
	var environ []string
	for _, s := range e2e.ChildSettings(t, w.redis.URL(), append(settings, "REDIS_TIMEOUT=20s", "HTTP_ADDR=127.0.0.1:0")...) {
		environ = append(environ, configs.Prefix+s)
	}
	c, err := configs.Load("", environ)
	e2e.Must(t, err)
	w.inside = e2e.Start(t, c)
	t.Cleanup(func() { // what the faults provoke
		for _, n := range w.nodes {
			n.Log.Forget(`"level":"ERROR"`)
		}
		w.inside.Log.Forget(`"level":"ERROR"`)
	})
	trader, account := w.inside.Account(t)
	w.trader, w.second, w.account = trader.At(w.nodes[0].URL), trader.At(w.nodes[1].URL), account.ID
	w.startPrometheus()
	e2e.Eventually(t, "all nodes are ready", func() bool { return w.value(`sum(agentsignal_ready)`) == 4 })
	return w
}

// startPrometheus starts one that scrapes each node, and evaluates the scaled rules, every second.
func (w *watched) startPrometheus() {
	w.Helper()
	program, err := exec.LookPath("prometheus")
	e2e.Must(w, err)
	dir := w.TempDir()
	rules, err := yaml.Marshal(scaledRules(w))
	e2e.Must(w, err)
	e2e.Must(w, os.WriteFile(filepath.Join(dir, "rules.yml"), rules, 0o600))
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n" +
		"scrape_configs:\n- job_name: agentsignal\n  tls_config: {insecure_skip_verify: true}\n  static_configs:\n"
	for _, target := range []string{w.nodes[0].URL, w.nodes[1].URL, w.nodes[2].URL, w.inside.URL} {
		scheme, address, _ := strings.Cut(target, "://")
		config += fmt.Sprintf("  - {targets: [%q], labels: {__scheme__: %s}}\n", address, scheme)
	}
	e2e.Must(w, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	p := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--web.listen-address=127.0.0.1:0",
		"--storage.tsdb.path="+filepath.Join(dir, "data"))
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log e2e.Journal
	p.Stdout, p.Stderr = &log, &log
	e2e.Must(w, p.Start())
	w.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
		if w.Failed() {
			w.Logf("end of the log of Prometheus:\n%s", log.Newest())
		}
	})
	e2e.Eventually(w, "Prometheus listens", func() bool {
		line := log.Line(`msg="Listening on"`)
		_, address, ok := strings.Cut(strings.TrimSpace(line), "address=")
		w.prometheus = "http://" + address
		return ok && strings.HasSuffix(line, "\n")
	})
	w.Logf("Prometheus is at %s", w.prometheus)
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
	e2e.Must(w, json.NewDecoder(r.Body).Decode(&answer))
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
	e2e.Must(w, err)
	return v
}

// alert is an alert that Prometheus has.
type alert struct {
	State       string
	Labels      map[string]string
	Annotations map[string]string
}

// firing returns the summaries of the alert's instances that fire. Where they must be of one kind, a slash and the
// label kind follow the alert's name.
func (w *watched) firing(wanted string) (summaries []string) {
	w.Helper()
	name, kind, ofKind := strings.Cut(wanted, "/")
	var data struct{ Alerts []alert }
	w.ask("alerts", &data)
	for _, a := range data.Alerts {
		if a.Labels["alertname"] == name && a.State == "firing" && (!ofKind || a.Labels["kind"] == kind) {
			summaries = append(summaries, a.Annotations["summary"])
		}
	}
	return summaries
}

// suffers makes faults at the same time: their alerts do not fire before, fire while they last, and stop.
func (w *watched) suffers(faults ...fault) {
	w.Helper()
	for _, f := range faults {
		for _, a := range f.alerts {
			e2e.Eventually(w, a+" does not fire before "+f.name, func() bool { return len(w.firing(a)) == 0 })
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
			e2e.Eventually(w, a+" fires because of "+f.name, func() bool {
				time.Sleep(200 * time.Millisecond) // rules are evaluated each second
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
			e2e.Eventually(w, a+" stops after "+f.name, func() bool { return len(w.firing(a)) == 0 })
		}
	}
}

// watchedFaults are the faults that are made in one cluster: those of a round at the same time.
type watchedFaults struct {
	name     string
	settings []string // of all nodes, see launch
	rounds   [][]fault
}

// quickFaults take least time: they are made in each run of the tests.
var quickFaults = watchedFaults{"Quick", []string{"RATE_LIMIT_PAGES=60/m"},
	[][]fault{{fewDescriptors}, {wrongKeys, flood, nodeHangs}, {redisHangs}}}

// moreFaults are made if TEST_ALERTS is set.
var moreFaults = []watchedFaults{
	{"Outside", nil, [][]fault{{expiringCertificate, readersRefused, failingEndpoint, hangingEndpoint, weatherFails}}},
	{"Inside", []string{"WEBHOOKS_DISABLE_AFTER=10s", "WEBHOOKS_WARN_AFTER="},
		[][]fault{{replicaHangs}, {brokenActor, deadEndpoint}}},
	{"SlowRedis", nil, [][]fault{{slowRedis}}},
	{"Connections", []string{"REDIS_TIMEOUT=2s"}, [][]fault{{slowRedisWithLoad}}},
	{"SlowConsumers", []string{"DASHBOARD_QUEUE_MESSAGES=16"}, [][]fault{{slowConsumers}}},
	{"Effects", nil, [][]fault{{effectsFail, headUnreadable}}},
	{"Audit", []string{"AUDIT_EVERY=1m"}, [][]fault{{signalsRemoved}, {auditsFail}}},
}

// TestAlerts makes faults in clusters. Each subtest has one of its own, and can be run alone.
func TestAlerts(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Log("prometheus is not installed: no alert is tested")
		return
	}
	made := []watchedFaults{quickFaults}
	if os.Getenv("TEST_ALERTS") != "" {
		made = append(made, moreFaults...)
	}
	for _, m := range made {
		t.Run(m.name, func(t *testing.T) {
			w := newWatched(t, m.settings...)
			defer w.runs(w.trader, w.second)()
			for _, round := range m.rounds {
				w.suffers(round...)
			}
		})
	}
}

// Each alert of the rules is one of a fault, and each fault is in the table of the document.
func TestEachAlertHasAFault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deployed, "README.md"))
	e2e.Must(t, err)
	made := map[string]bool{}
	for _, m := range append(moreFaults, quickFaults) {
		for _, f := range slices.Concat(m.rounds...) {
			for _, a := range f.alerts {
				name, _, _ := strings.Cut(a, "/")
				made[name] = true
			}
		}
		if !strings.Contains(string(text), "`"+m.name+"`") {
			t.Errorf("deploy/README.md does not name the faults %s", m.name)
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" && !made[r.Alert] {
				t.Errorf("no fault makes %s", r.Alert)
			}
		}
	}
}
