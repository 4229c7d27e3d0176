package service

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// register makes an account by the API, which must be open, and returns a client
// with a key of it.
func register(public *client) *client {
	public.tb.Helper()
	email := newEmail()
	public.post("/v1/auth/register", credentialsBody(email, password)).want(public.tb, http.StatusCreated)
	return public.with(public.with(public.login(email, password).Access).key("key", "").Secret)
}

// promises records what a service has acknowledged.
type promises struct {
	mu            sync.Mutex
	signals, jobs []string
	unknown       int // requests whose outcome is unknown
}

func (p *promises) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *promises) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.signals) + len(p.jobs)
}

// load runs the trading agent from some workers, at once and as jobs, until calm is called or
// the service no longer answers.
func (p *promises) load(trader *client, workers int) (calm func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				body := runBody("ACME", "momentum")
				if async := (n+w)%4 == 0; async {
					body = runBody("ACME", "momentum", `"async":true`)
				}
				a, err := trader.try(http.MethodPost, "/v1/agents/trading/run", body)
				switch {
				case err != nil:
					p.note(func() { p.unknown++ })
					return
				case a.Status == http.StatusOK && strings.HasPrefix(a.Body, `{"job_id"`):
					p.note(func() { p.jobs = append(p.jobs, decode[wireJob](trader.tb, a.Body).ID) })
				case a.Status == http.StatusOK:
					p.note(func() { p.signals = append(p.signals, decode[wireSignal](trader.tb, a.Body).ID) })
				case a.unavailable():
					p.note(func() { p.unknown++ })
				default:
					trader.tb.Errorf("a run is answered with %d %v %s", a.Status, a.Header, a.Body)
					return
				}
			}
		})
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

// kept fails the test if something acknowledged is missing or there twice.
func (p *promises) kept(trader *client) {
	trader.tb.Helper()
	for _, id := range p.jobs {
		p.signals = append(p.signals, trader.completed(id).Signal.ID)
	}
	var listed []string
	for _, s := range trader.allSignals() {
		listed = append(listed, s.ID)
	}
	slices.Sort(listed)
	for _, id := range p.signals {
		if _, found := slices.BinarySearch(listed, id); !found {
			trader.tb.Errorf("%s was acknowledged and is not listed", id)
		}
	}
	if n := len(listed); n < len(p.signals) || n > len(p.signals)+p.unknown {
		trader.tb.Errorf("%d signals are listed; %d were acknowledged and %d requests had no answer", n, len(p.signals),
			p.unknown)
	}
	trader.tb.Logf("%d signals, %d of them by jobs, %d requests without an answer", len(listed), len(p.jobs), p.unknown)
}

func TestWhatWasAcknowledgedSurvivesKillNine(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	settings := childSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "LEASE=6s")
	first := launch(t, settings...)
	trader := first.newTrader(t, redis)
	before := len(trader.allSignals())

	var p promises
	calm := p.load(trader, 8)
	eventually(t, "a hundred runs are acknowledged", func() bool { return p.count() >= 100 })
	var killing sync.WaitGroup
	killing.Go(first.kill)
	killing.Go(redis.Kill)
	killing.Wait()
	calm()

	redis.Restart()
	second := launchReady(t, settings...)
	trader = trader.at(second.url)
	p.unknown += before
	p.kept(trader)
	trader.run("ACME", "momentum")
}

func TestTheServiceOutlivesItsRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s, trader, account := startTrading(t, redis)
	public := s.client(t)

	stayed, left := trader.dial(), trader.dial()
	early := []string{trader.run("ACME", "momentum").ID, trader.run("ACME", "breakout").ID}
	left.until("both signals", func(all []message) bool { return len(signalsOf(all)) == 2 })
	place := left.last()
	left.ws.Close()

	var p promises
	calm := p.load(trader, 3)
	eventually(t, "runs are acknowledged", func() bool { return p.count() >= 20 })
	redis.Kill()
	eventually(t, "it is alive but not ready", func() bool {
		alive, ready, status := public.health()
		if alive != http.StatusOK {
			t.Errorf("/healthz is %d while Redis is away", alive)
		}
		return ready == http.StatusServiceUnavailable && status == "not_ready"
	})
	for _, ask := range []func() answer{
		func() answer { return trader.tryRun("ACME", "momentum") },
		func() answer { return trader.get("/v1/signals") },
		func() answer { return trader.get("/v1/account") },
		func() answer { return public.tryLogin(account.Email, password) },
		func() answer { return public.post("/v1/auth/refresh", `{"refresh_token":"`+refreshForm+`"}`) },
	} {
		var a answer
		eventually(t, "a request is to be retried",
			func() bool { a = ask(); return a.Status == http.StatusServiceUnavailable })
		if !a.unavailable() {
			t.Errorf("while Redis is away the answer is %d %v %s", a.Status, a.Header, a.Body)
		}
	}
	if _, refused, err := trader.tryDial(http.Header{}); err == nil || refused == nil ||
		refused.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream is opened while Redis is away: %v %v", refused, err)
	}
	before := p.count()

	redis.Restart()
	s.awaitReady(t)
	eventually(t, "runs are acknowledged again", func() bool { return p.count() >= before+20 })
	calm()
	p.signals = append(p.signals, early...)
	p.kept(trader)

	// Both streams have all of it, once and in order.
	var listed []string
	for _, w := range trader.allSignals() {
		listed = append(listed, w.ID)
	}
	slices.Reverse(listed)
	all := stayed.until("all signals", func(all []message) bool { return len(signalsOf(all)) >= len(listed) })
	if got := signalsOf(all); !sameSet(got, listed) {
		t.Errorf("the stream that stayed has %d signals, the list %d", len(got), len(listed))
	}
	back := trader.dial()
	if d := back.subscribe(`"last_event_id":"` + place + `"`); d.Resumed == nil || !d.Resumed.Complete {
		t.Fatalf("resumed: %+v", d.Resumed)
	}
	all = back.until("what was missed", func(all []message) bool { return len(signalsOf(all)) >= len(listed)-2 })
	if got := append(early, signalsOf(all)...); !sameSet(got, listed) {
		t.Errorf("the stream that came back has %d signals, the list %d", len(got), len(listed))
	}
}

// refreshForm has the form of a refresh token.
const refreshForm = "rt_q3V0xH7mW2cY8nB5kR1tZ6pL4sD9fG0jA7eU2iO5vXw"

// sameSet reports whether both lists have the same elements, each once.
func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b) && len(slices.Compact(a)) == len(b)
}

func TestTheServiceWaitsForItsRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	// What the installation has is known only when Redis answers.
	must(t, redis.Client().HSet(t.Context(), "{node}:installation", "partitions", "5").Err())
	redis.Kill()
	s := begin(t, testConfig(t, redis.URL()))
	t.Cleanup(func() { s.stop(t) })
	public := s.client(t)
	eventually(t, "it has tried",
		func() bool { return s.log.Line("waiting for redis: start it, or correct the setting redis.url") != "" })
	if alive, ready, status := public.health(); alive != http.StatusOK || ready != http.StatusServiceUnavailable ||
		status != "not_ready" {
		t.Errorf("without Redis /healthz is %d, /readyz %d %s", alive, ready, status)
	}
	if a := public.with(unknownKey()).get("/v1/signals"); !a.unavailable() {
		t.Errorf("without Redis the list is %d %s", a.Status, a.Body)
	}
	if a := public.get("/v1/assets/BTC/bars"); !a.unavailable() {
		t.Errorf("without Redis bars are answered with %d %s", a.Status, a.Body)
	}
	if a := public.get("/metrics"); a.Status != http.StatusOK || !strings.Contains(a.Body, "agentsignal_ready 0") {
		t.Errorf("without Redis /metrics is %d", a.Status)
	}
	idle := rawConn(t, s.url)
	answers := bufio.NewReader(idle)
	onIdle := func(want int) {
		fmt.Fprint(idle, "GET /v1/signals HTTP/1.1\r\nHost: x\r\n\r\n")
		if a, err := http.ReadResponse(answers, nil); err != nil || readAnswer(a).Status != want {
			t.Errorf("on a connection that was opened before, %v, %v; want %d", a, err, want)
		}
	}
	onIdle(http.StatusServiceUnavailable)
	served := public.untilServed(16)
	redis.Restart()
	s.awaitReady(t)
	served()
	onIdle(http.StatusUnauthorized)
	trader, _ := s.account(t)
	trader.lists("", 0)
	if n := s.process.store.Client.Partitions(); n != 5 {
		t.Errorf("the service uses %d partitions, the installation has 5", n)
	}
	if n := redis.Client().Exists(t.Context(), "{auth}:accounts").Val(); n != 1 {
		t.Error("the account is not under its former name")
	}
}

// untilServed repeats a request on some connections until it is no longer answered with 503. Wait returns when
// that is so on all of them. No request may be lost meanwhile.
func (c *client) untilServed(connections int) (wait func()) {
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for status := http.StatusServiceUnavailable; status == http.StatusServiceUnavailable; {
				// It has no Idempotency-Key, so the transport does not repeat it.
				r, err := http.NewRequest(http.MethodPost, c.url+"/v1/agents/trading/run", strings.NewReader("{}"))
				must(c.tb, err)
				a, err := transport.RoundTrip(r)
				if err != nil {
					c.tb.Errorf("a request is lost: %v", err)
					return
				}
				if status = readAnswer(a).Status; status != http.StatusServiceUnavailable && status != http.StatusUnauthorized {
					c.tb.Errorf("a request without a credential is answered with %d", status)
				}
			}
		})
	}
	return all.Wait
}

func TestAServiceThatWaitsForRedisEnds(t *testing.T) {
	t.Parallel()
	s := begin(t, testConfig(t, "redis://127.0.0.1:"+redistest.FreePort(t)))
	eventually(t, "it has tried",
		func() bool { return s.log.Line("waiting for redis: start it, or correct the setting redis.url") != "" })
	s.stop(t)
	if s.process.store != nil {
		t.Error("it has built its parts without Redis")
	}
}

func TestAnEmbeddedRedisThatDiesIsRestartedWithItsData(t *testing.T) {
	t.Parallel()
	c := testConfig(t, "")
	s := start(t, c)
	rdb := redis.NewClient(&redis.Options{Network: "unix",
		Addr: strings.TrimPrefix(s.process.embedded.URL(), "unix://"), MaxRetries: -1})
	t.Cleanup(func() { rdb.Close() })
	newMarket(t, rdb).open("ACME", "101.25")
	s.awaitPrices(t, "ACME", signal.H1)
	trader, _ := s.account(t)
	live := trader.dial()
	want := []string{trader.run("ACME", "momentum").ID}
	for range 2 {
		before := processID(t, rdb)
		must(t, syscall.Kill(before, syscall.SIGKILL))
		eventually(t, "another Redis answers", func() bool {
			now := processID(t, rdb)
			return now != 0 && now != before
		})
		s.awaitReady(t)
		want = append(want, trader.awaitRun("ACME", "momentum").ID)
	}
	listed := trader.allSignals()
	for _, id := range want {
		if !slices.ContainsFunc(listed, func(s wireSignal) bool { return s.ID == id }) {
			t.Errorf("%s is not listed", id)
		}
		live.await("every signal", func(m message) bool { return m.signalOf() == id })
	}

	// And after a restart of all.
	s.stop(t)
	again := start(t, c)
	if got := trader.at(again.url).allSignals(); len(got) != len(listed) {
		t.Errorf("after a restart %d signals are listed, before %d", len(got), len(listed))
	}
}

// processID asks a Redis server for its process; 0 if it does not answer.
func processID(tb testing.TB, rdb *redis.Client) int {
	tb.Helper()
	info, err := rdb.InfoMap(tb.Context(), "server").Result()
	if err != nil {
		return 0
	}
	id, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		tb.Fatalf("read process id: %v", err)
	}
	return id
}

func TestARunWhoseProcessDiedIsEnded(t *testing.T) {
	t.Parallel()
	s := start(t, testConfig(t, redistest.New(t).URL()))
	trader, account := s.account(t)
	live := trader.dial()
	run := signal.NewRunID()
	// A process announces a run and dies.
	_, err := s.process.events.Append(t.Context(), signal.Change{Account: account.ID,
		Events: []signal.Event{{ID: signal.NewEventID(), Account: account.ID, Type: signal.AgentStarted,
			Agent: "trading", Run: run, Data: []byte(`{}`)}},
		Due: &signal.RunDue{Run: run, Agent: "trading", At: s.process.store.Client.Now().Add(time.Second)}})
	must(t, err)
	live.await("its beginning",
		func(m message) bool { return m.statusOf() == runStatus{"trading", "running", string(run)} })
	live.await("its end", func(m message) bool { return m.statusOf() == runStatus{"trading", "error", string(run)} })
}
