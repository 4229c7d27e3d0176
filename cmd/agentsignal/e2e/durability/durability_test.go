package durability

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
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestWhatWasAcknowledgedSurvivesKillNine(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	settings := e2e.ChildSettings(t, redis.URL(), "AUTH_REGISTRATION=open", "LEASE=6s")
	first := e2e.Launch(t, settings...)
	trader := first.NewTrader(t, redis)
	before := len(trader.AllSignals())

	var p e2e.Promises
	calm := p.Load(trader, 8)
	e2e.Eventually(t, "a hundred runs are acknowledged", func() bool { return p.Count() >= 100 })
	var killing sync.WaitGroup
	killing.Go(first.Kill)
	killing.Go(redis.Kill)
	killing.Wait()
	calm()

	redis.Restart()
	second := e2e.LaunchReady(t, settings...)
	trader = trader.At(second.URL)
	p.Unknown += before
	p.Kept(trader)
	trader.Run("ACME", "momentum")
}

func TestTheServiceOutlivesItsRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s, trader, account := e2e.StartTrading(t, redis)
	public := s.Client(t)

	stayed, left := trader.Dial(), trader.Dial()
	early := []string{trader.Run("ACME", "momentum").ID, trader.Run("ACME", "breakout").ID}
	left.Until("both signals", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) == 2 })
	place := left.Last()
	left.WS.Close()

	var p e2e.Promises
	calm := p.Load(trader, 3)
	e2e.Eventually(t, "runs are acknowledged", func() bool { return p.Count() >= 20 })
	redis.Kill()
	e2e.Eventually(t, "it is alive but not ready", func() bool {
		alive, ready, status := public.Health()
		if alive != http.StatusOK {
			t.Errorf("/healthz is %d while Redis is away", alive)
		}
		return ready == http.StatusServiceUnavailable && status == "not_ready"
	})
	for _, ask := range []func() e2e.Answer{
		func() e2e.Answer { return trader.TryRun("ACME", "momentum") },
		func() e2e.Answer { return trader.Get("/v1/signals") },
		func() e2e.Answer { return trader.Get("/v1/account") },
		func() e2e.Answer { return public.TryLogin(account.Email, e2e.Password) },
		func() e2e.Answer { return public.Post("/v1/auth/refresh", `{"refresh_token":"`+e2e.RefreshForm+`"}`) },
	} {
		var a e2e.Answer
		e2e.Eventually(t, "a request is to be retried",
			func() bool { a = ask(); return a.Status == http.StatusServiceUnavailable })
		if !a.Unavailable() {
			t.Errorf("while Redis is away the answer is %d %v %s", a.Status, a.Header, a.Body)
		}
	}
	if _, refused, err := trader.TryDial(http.Header{}); err == nil || refused == nil ||
		refused.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream is opened while Redis is away: %v %v", refused, err)
	}
	before := p.Count()

	redis.Restart()
	s.AwaitReady(t)
	e2e.Eventually(t, "runs are acknowledged again", func() bool { return p.Count() >= before+20 })
	calm()
	p.Signals = append(p.Signals, early...)
	p.Kept(trader)

	// Both streams have all of it, once and in order.
	var listed []string
	for _, w := range trader.AllSignals() {
		listed = append(listed, w.ID)
	}
	slices.Reverse(listed)
	all := stayed.Until("all signals", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) >= len(listed) })
	if got := e2e.SignalsOf(all); !sameSet(got, listed) {
		t.Errorf("the stream that stayed has %d signals, the list %d", len(got), len(listed))
	}
	back := trader.Dial()
	if d := back.Subscribe(`"last_event_id":"` + place + `"`); d.Resumed == nil || !d.Resumed.Complete {
		t.Fatalf("resumed: %+v", d.Resumed)
	}
	all = back.Until("what was missed", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) >= len(listed)-2 })
	if got := append(early, e2e.SignalsOf(all)...); !sameSet(got, listed) {
		t.Errorf("the stream that came back has %d signals, the list %d", len(got), len(listed))
	}
}

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
	e2e.Must(t, redis.Client().HSet(t.Context(), "{node}:installation", "partitions", "5 even").Err())
	redis.Kill()
	s := e2e.Begin(t, e2e.TestConfig(t, redis.URL()))
	t.Cleanup(func() { s.Stop(t) })
	public := s.Client(t)
	e2e.Eventually(t, "it has tried",
		func() bool { return s.Log.Line("waiting for redis: start it, or correct the setting redis.url") != "" })
	if alive, ready, status := public.Health(); alive != http.StatusOK || ready != http.StatusServiceUnavailable ||
		status != "not_ready" {
		t.Errorf("without Redis /healthz is %d, /readyz %d %s", alive, ready, status)
	}
	if a := public.With(e2e.UnknownKey()).Get("/v1/signals"); !a.Unavailable() {
		t.Errorf("without Redis the list is %d %s", a.Status, a.Body)
	}
	if a := public.Get("/v1/assets/BTC/bars"); !a.Unavailable() {
		t.Errorf("without Redis bars are answered with %d %s", a.Status, a.Body)
	}
	if a := public.Get("/metrics"); a.Status != http.StatusOK || !strings.Contains(a.Body, "agentsignal_ready 0") {
		t.Errorf("without Redis /metrics is %d", a.Status)
	}
	idle := e2e.RawConn(t, s.URL)
	answers := bufio.NewReader(idle)
	onIdle := func(want int) {
		fmt.Fprint(idle, "GET /v1/signals HTTP/1.1\r\nHost: x\r\n\r\n")
		if a, err := http.ReadResponse(answers, nil); err != nil || e2e.ReadAnswer(a).Status != want {
			t.Errorf("on a connection that was opened before, %v, %v; want %d", a, err, want)
		}
	}
	onIdle(http.StatusServiceUnavailable)
	served := public.UntilServed(16)
	redis.Restart()
	s.AwaitReady(t)
	served()
	onIdle(http.StatusUnauthorized)
	trader, _ := s.Account(t)
	trader.Lists("", 0)
	if n := s.Store().Client.Partitions(); n != 5 {
		t.Errorf("the service uses %d partitions, the installation has 5", n)
	}
}

func TestAServiceThatWaitsForRedisEnds(t *testing.T) {
	t.Parallel()
	s := e2e.Begin(t, e2e.TestConfig(t, "redis://127.0.0.1:"+redistest.FreePort(t)))
	e2e.Eventually(t, "it has tried",
		func() bool { return s.Log.Line("waiting for redis: start it, or correct the setting redis.url") != "" })
	s.Stop(t)
	if s.Built() {
		t.Error("it has built its parts without Redis")
	}
}

func TestAnEmbeddedRedisThatDiesIsRestartedWithItsData(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, "")
	s := e2e.Start(t, c)
	rdb := redis.NewClient(&redis.Options{Network: "unix",
		Addr: strings.TrimPrefix(s.RedisURL(), "unix://"), MaxRetries: -1})
	t.Cleanup(func() { rdb.Close() })
	e2e.NewMarket(t, rdb).Open("ACME", "101.25")
	s.AwaitPrices(t, "ACME", signal.H1)
	trader, _ := s.Account(t)
	live := trader.Dial()
	want := []string{trader.Run("ACME", "momentum").ID}
	for range 2 {
		before := processID(t, rdb)
		e2e.Must(t, syscall.Kill(before, syscall.SIGKILL))
		e2e.Eventually(t, "another Redis answers", func() bool {
			now := processID(t, rdb)
			return now != 0 && now != before
		})
		s.AwaitReady(t)
		want = append(want, trader.AwaitRun("ACME", "momentum").ID)
	}
	listed := trader.AllSignals()
	for _, id := range want {
		if !slices.ContainsFunc(listed, func(s e2e.WireSignal) bool { return s.ID == id }) {
			t.Errorf("%s is not listed", id)
		}
		live.Await("every signal", func(m e2e.Message) bool { return m.SignalOf() == id })
	}

	// And after a restart of all.
	s.Stop(t)
	again := e2e.Start(t, c)
	if got := trader.At(again.URL).AllSignals(); len(got) != len(listed) {
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
	s := e2e.Start(t, e2e.TestConfig(t, redistest.New(t).URL()))
	trader, account := s.Account(t)
	live := trader.Dial()
	run := signal.NewRunID()
	// A process announces a run and dies.
	_, err := s.Events().Append(t.Context(), signal.Change{Account: account.ID,
		Events: []signal.Event{{ID: signal.NewEventID(), Account: account.ID, Type: signal.AgentStarted,
			Agent: "trading", Run: run, Data: []byte(`{}`)}},
		Due: &signal.RunDue{Run: run, Agent: "trading", At: s.Store().Client.Now().Add(time.Second)}})
	e2e.Must(t, err)
	live.Await("its beginning",
		func(m e2e.Message) bool {
			return m.StatusOf() == e2e.RunStatus{Agent: "trading", Status: "running", Run: string(run)}
		})
	live.Await("its end", func(m e2e.Message) bool {
		return m.StatusOf() == e2e.RunStatus{Agent: "trading", Status: "error", Run: string(run)}
	})
}
