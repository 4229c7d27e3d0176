package durability

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestARedisThatComesBackEmptyIsNoticed(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t) // which is not durable
	s, trader, _ := e2e.StartTrading(t, redis)
	live := trader.Dial()
	made := trader.Run("ACME", "momentum")
	trader.Signals("")
	redis.Kill()
	redis.Restart()
	s.AwaitReady(t)
	trader.Await("/v1/signals", http.StatusUnauthorized)
	if code := live.Closing(); code != 1001 && code != 4401 {
		t.Errorf("a stream with a gap is closed with %d", code)
	}
	// A new account finds a working service, and nothing of the old one.
	e2e.NewMarket(t, redis.Client()).Open("ACME", "99.75")
	next, _ := s.Account(t)
	next.Get("/v1/signals/"+made.ID).Fails(t, "not_found")
	e2e.Eventually(t, "runs have the new prices", func() bool {
		a := next.TryRun("ACME", "momentum")
		return a.Status == http.StatusOK && *e2e.Decode[e2e.WireSignal](t, a.Body).Entry == 99.75
	})
	if all := next.AllSignals(); len(all) == 0 {
		t.Error("nothing is listed")
	}
	// The record does not begin again by itself.
	const refused = "no checkpoint is signed"
	e2e.Eventually(t, "the lost record is named", func() bool { return s.Log.Line(refused, "accept-rollback") != "" })
	s.Log.Forget(refused)
}

// TestAnEventLogThatWasDeleted: the key of a partition's event log was deleted by hand. What signals are
// there is not in it.
func TestAnEventLogThatWasDeleted(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	live := trader.Dial()
	first := trader.Run("ACME", "momentum")
	live.Signals(first.ID)
	k := s.Store().Client
	e2e.Must(t, redis.Client().Del(t.Context(), k.EventsKey(k.Partition(account.ID))).Err())
	second := trader.AwaitRun("ACME", "breakout")
	trader.Lists("", 2, second.ID, first.ID)
	all := trader.Dial()
	third := trader.Run("ACME", "momentum")
	all.Signals(third.ID)
	trader.Lists("", 3, third.ID, second.ID, first.ID)
	s.AwaitReady(t)
}

// TestASignalLogThatWasDeleted: the key of a partition's signal log was deleted by hand, and the service is then
// started again. The signals in it are lost, which is reported; new ones are made, listed and closed.
func TestASignalLogThatWasDeleted(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := e2e.StartTrading(t, redis)
	lost := trader.Run("ACME", "momentum")
	k := s.Store().Client
	p := k.Partition(account.ID)
	e2e.Eventually(t, "its leaf is appended", func() bool {
		return redis.Client().Exists(t.Context(), k.LeafHeadKey(p)).Val() == 1
	})
	e2e.Must(t, redis.Client().Del(t.Context(), k.SignalsKey(p)).Err())
	made := trader.Run("ACME", "breakout")
	trader.Get("/v1/signals/" + made.ID).Ok(t)
	const warning = "signal log of partition "
	var risks []string
	found := func() bool {
		risks = s.LookForRisks(t.Context(), risks)
		return slices.ContainsFunc(risks, func(r string) bool { return strings.Contains(r, warning+strconv.Itoa(p)) })
	}
	e2e.Eventually(t, "the loss is a risk under the running node", found) // when the next leaf is appended
	unreadable := k.LeafHeadKey((p + 1) % k.Partitions())
	e2e.Must(t, redis.Client().Set(t.Context(), unreadable, "x", 0).Err())
	if !found() {
		t.Errorf("a look that fails ends the risk: %q", risks)
	}
	e2e.Must(t, redis.Client().Del(t.Context(), unreadable).Err())
	config := s.Config()
	s.Stop(t)
	s = e2e.Start(t, config)
	s.AwaitTrade(t, "ACME", 101.25)
	trader = trader.At(s.URL)
	trader.Get("/v1/signals/"+lost.ID).Fails(t, "not_found")
	trader.Lists("", 1, made.ID)
	next := trader.AwaitRun("ACME", "momentum")
	trader.Lists("", 2, next.ID, made.ID)
	price := strconv.FormatFloat(*next.Target+(*next.Target-*next.Entry)/100, 'f', -1, 64)
	e2e.NewMarket(t, redis.Client()).Tick("ACME", price)
	e2e.Eventually(t, "it closes", func() bool { return trader.State(next.ID).Status == "closed" })
	e2e.Eventually(t, "the loss is shown", func() bool {
		warnings, _ := s.Warnings(t)
		return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, warning+strconv.Itoa(p)) })
	})
	if s.Log.Line("data are at risk", warning+strconv.Itoa(p)) == "" {
		t.Error("the loss is not logged")
	}
}

func TestARedisThatHangsLosesNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := e2e.TestConfig(t, redis.URL())
	config.Redis.Timeout = configs.Duration(4 * time.Second) // after which a run is to be retried
	s := e2e.Start(t, config)
	e2e.NewMarket(t, redis.Client()).Open("ACME", "101.25")
	s.AwaitTrade(t, "ACME", 101.25)
	trader, _ := s.Account(t)
	live := trader.Dial()
	var p e2e.Promises
	calm := p.Load(trader, 4)
	for range 2 {
		before := p.Count()
		e2e.Eventually(t, "runs are acknowledged", func() bool { return p.Count() >= before+20 })
		redis.Pause()
		e2e.Eventually(t, "a run is to be retried", func() bool {
			return trader.TryRun("ACME", "momentum").Unavailable()
		})
		redis.Continue()
		s.AwaitReady(t)
	}
	calm()
	p.Unknown += 2 * 1000 // the unavailable runs of this test may have been stored
	p.Kept(trader)
	listed := trader.AllSignals()
	all := live.Until("every signal", func(all []e2e.Message) bool { return len(e2e.SignalsOf(all)) >= len(listed) })
	var want []string
	for _, w := range listed {
		want = append(want, w.ID)
	}
	if got := e2e.SignalsOf(all); !sameSet(got, want) {
		t.Errorf("the stream sent %d signals, listed are %d", len(got), len(want))
	}
}

func TestAClientThatLeavesDoesNotCancelItsRun(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	const runs = 5
	for range runs {
		conn := e2e.RawConn(t, trader.URL)
		body := e2e.RunBody("BTC", "momentum")
		fmt.Fprintf(conn, "POST /v1/agents/trading/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", trader.Token, len(body), body)
		conn.Close()
	}
	e2e.Eventually(t, "all runs are done", func() bool { return trader.Signals("").Total == runs })
}

func TestAStreamIsAuthenticatedInThreeWays(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	public := trader.With("")
	first := public.Dial()
	first.Send(`{"action":"auth","api_key":"` + trader.Token + `"}`)
	first.Send(`{"action":"ping","ref":"behind"}`) // handled in order
	all := first.Until("welcome and pong", func(all []e2e.Message) bool { return len(all) == 2 })
	if e2e.Types(all) != "welcome pong" {
		t.Errorf("after auth: %s", e2e.Types(all))
	}
	query := public.DialAt("/v1/ws/dashboard?api_key=" + trader.Token)
	query.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
	header := trader.Dial()
	made := trader.Run("BTC", "momentum")
	for _, s := range []*e2e.Stream{first, query, header} {
		s.Await("the signal", func(m e2e.Message) bool { return m.SignalOf() == made.ID })
	}
}

func TestWithoutARedisServerTheServiceWorksAndWarns(t *testing.T) {
	t.Parallel()
	// At the pace of the clock the market writes a tick of each asset every six seconds,
	// which the server inside the process keeps up with under the race detector.
	c := e2e.LaunchReady(t, "DATA_DIR="+t.TempDir(), "AUTH_REGISTRATION=open", "MARKET_SPEED=1", e2e.NoPath)
	public := c.Client(t)
	var r struct{ Warnings []string }
	e2e.Eventually(t, "the store answers in time", func() bool { // which it does not while all begins on busy cores
		r = e2e.Decode[struct{ Warnings []string }](t, public.Get("/readyz").Body)
		return !slices.Contains(r.Warnings, "redis cannot be reached")
	})
	if len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "market.source is not set") ||
		!strings.Contains(r.Warnings[1], "nothing survives") || c.Log.Line(`"level":"WARN"`, "prices are simulated: set") == "" ||
		c.Log.Line("no redis-server is installed",
			"install redis-server or valkey-server 7.0 or later, or set redis.url") == "" {
		t.Errorf("/readyz warns of %q", r.Warnings)
	}
	if line := c.Log.Line("redis is started in the data directory"); line != "" {
		t.Errorf("it logs %s", line)
	}
	trader := e2e.Register(public)
	// On a busy machine the simulated market starts late and may fall behind: then a run is
	// not answered, or fails and is retryable. With the key it counts once.
	repeat := func(key, body string) (a e2e.Answer) {
		e2e.Eventually(t, "run "+key, func() bool {
			a = trader.Post("/v1/agents/trading/run", body, "Idempotency-Key: "+key)
			p := e2e.Decode[e2e.Problem](t, a.Body)
			return a.Status != http.StatusServiceUnavailable && !p.Retryable && p.Code != "idempotency_in_progress"
		})
		return a.Ok(t)
	}
	live := trader.Dial() // first: the event of a run may come after its answer
	first := e2e.Decode[e2e.WireSignal](t, repeat("first", e2e.RunBody("BTC", "momentum")).Body)
	before := trader.Signals("").Total
	made := e2e.Decode[e2e.WireSignal](t, repeat("run", e2e.RunBody("ETH", "breakout")).Body)
	var job e2e.WireJob
	for try := 0; job.ID == "" || job.Error != nil && job.Error.Retryable; try++ {
		accepted := repeat(fmt.Sprint("job ", try), e2e.RunBody("AAPL", "mean_reversion", `"async":true`))
		job = trader.AwaitJob(e2e.Decode[e2e.WireJob](t, accepted.Body).ID)
	}
	if job.Status != "completed" {
		t.Fatalf("the job ended as %+v", job)
	}
	all := trader.AllSignals()
	if len(all) != before+2 || all[0].ID != job.Signal.ID || all[1].ID != made.ID {
		t.Errorf("listed are %d signals, before %d", len(all), before)
	}
	trader.Get("/v1/signals/" + made.ID).Ok(t)
	live.Signals(first.ID, made.ID, job.Signal.ID)
	trader.Dial().Resumes(live, made.ID, 1)
	a := repeat("again", e2e.RunBody("BTC", "momentum"))
	if again := repeat("again", e2e.RunBody("BTC", "momentum")); again.Body != a.Body ||
		again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the replay is %s, the answer was %s", again.Body, a.Body)
	}
}
