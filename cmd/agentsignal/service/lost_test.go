package service

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestARedisThatComesBackEmptyIsNoticed(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t) // which is not durable
	s, trader, _ := startTrading(t, redis)
	live := trader.dial()
	made := trader.run("ACME", "momentum")
	trader.signals("")
	redis.Kill()
	redis.Restart()
	s.awaitReady(t)
	trader.await("/v1/signals", http.StatusUnauthorized)
	if code := live.closing(); code != 1001 && code != 4401 {
		t.Errorf("a stream with a gap is closed with %d", code)
	}
	// A new account finds a working service, and nothing of the old one.
	newMarket(t, redis.Client()).open("ACME", "99.75")
	next, _ := s.account(t)
	next.get("/v1/signals/"+made.ID).fails(t, "not_found")
	eventually(t, "runs have the new prices", func() bool {
		a := next.tryRun("ACME", "momentum")
		return a.Status == http.StatusOK && *decode[wireSignal](t, a.Body).Entry == 99.75
	})
	if all := next.allSignals(); len(all) == 0 {
		t.Error("nothing is listed")
	}
}

// TestAnEventLogThatWasDeleted: the key of a partition's event log was deleted by hand. What signals are
// there is not in it.
func TestAnEventLogThatWasDeleted(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := startTrading(t, redis)
	live := trader.dial()
	first := trader.run("ACME", "momentum")
	live.signals(first.ID)
	k := s.process.store.Client
	must(t, redis.Client().Del(t.Context(), k.EventsKey(k.Partition(account.ID))).Err())
	second := trader.awaitRun("ACME", "breakout")
	trader.lists("", 2, second.ID, first.ID)
	all := trader.dial()
	third := trader.run("ACME", "momentum")
	all.signals(third.ID)
	trader.lists("", 3, third.ID, second.ID, first.ID)
	s.awaitReady(t)
}

// TestASignalLogThatWasDeleted: the key of a partition's signal log was deleted by hand, and the service is then
// started again. The signals in it are lost, which is reported; new ones are made, listed and closed.
func TestASignalLogThatWasDeleted(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, account := startTrading(t, redis)
	lost := trader.run("ACME", "momentum")
	k := s.process.store.Client
	p := k.Partition(account.ID)
	eventually(t, "its leaf is appended", func() bool {
		return redis.Client().Exists(t.Context(), k.LeafHeadKey(p)).Val() == 1
	})
	must(t, redis.Client().Del(t.Context(), k.SignalsKey(p)).Err())
	made := trader.run("ACME", "breakout")
	trader.get("/v1/signals/" + made.ID).ok(t)
	const warning = "signal log of partition "
	var risks []string
	found := func() bool {
		risks = s.process.lookForRisks(t.Context(), risks)
		return slices.ContainsFunc(risks, func(r string) bool { return strings.Contains(r, warning+strconv.Itoa(p)) })
	}
	eventually(t, "the loss is a risk under the running node", found) // when the next leaf is appended
	unreadable := k.LeafHeadKey((p + 1) % k.Partitions())
	must(t, redis.Client().Set(t.Context(), unreadable, "x", 0).Err())
	if !found() {
		t.Errorf("a look that fails ends the risk: %q", risks)
	}
	must(t, redis.Client().Del(t.Context(), unreadable).Err())
	config := s.process.config
	s.stop(t)
	s = start(t, config)
	s.awaitTrade(t, "ACME", 101.25)
	trader = trader.at(s.url)
	trader.get("/v1/signals/"+lost.ID).fails(t, "not_found")
	trader.lists("", 1, made.ID)
	next := trader.awaitRun("ACME", "momentum")
	trader.lists("", 2, next.ID, made.ID)
	price := strconv.FormatFloat(*next.Target+(*next.Target-*next.Entry)/100, 'f', -1, 64)
	newMarket(t, redis.Client()).tick("ACME", price)
	eventually(t, "it closes", func() bool { return trader.state(next.ID).Status == "closed" })
	eventually(t, "the loss is shown", func() bool {
		warnings, _ := s.warnings(t)
		return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, warning+strconv.Itoa(p)) })
	})
	if s.log.Line("data are at risk", warning+strconv.Itoa(p)) == "" {
		t.Error("the loss is not logged")
	}
}

func TestARedisThatHangsLosesNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, trader, _ := startTrading(t, redis)
	live := trader.dial()
	var p promises
	calm := p.load(trader, 4)
	for range 2 {
		before := p.count()
		eventually(t, "runs are acknowledged", func() bool { return p.count() >= before+20 })
		redis.Pause()
		eventually(t, "a run is to be retried", func() bool {
			return trader.tryRun("ACME", "momentum").unavailable()
		})
		redis.Continue()
		s.awaitReady(t)
	}
	calm()
	p.unknown += 2 * 1000 // the unavailable runs of this test may have been stored
	p.kept(trader)
	listed := trader.allSignals()
	all := live.until("every signal", func(all []message) bool { return len(signalsOf(all)) >= len(listed) })
	var want []string
	for _, w := range listed {
		want = append(want, w.ID)
	}
	if got := signalsOf(all); !sameSet(got, want) {
		t.Errorf("the stream sent %d signals, listed are %d", len(got), len(want))
	}
}

func TestAClientThatLeavesDoesNotCancelItsRun(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	const runs = 5
	for range runs {
		conn := rawConn(t, trader.url)
		body := runBody("BTC", "momentum")
		fmt.Fprintf(conn, "POST /v1/agents/trading/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", trader.token, len(body), body)
		conn.Close()
	}
	eventually(t, "all runs are done", func() bool { return trader.signals("").Total == runs })
}

func TestAStreamIsAuthenticatedInThreeWays(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	public := trader.with("")
	first := public.dial()
	first.send(`{"action":"auth","api_key":"` + trader.token + `"}`)
	first.send(`{"action":"ping","ref":"behind"}`) // handled in order
	all := first.until("welcome and pong", func(all []message) bool { return len(all) == 2 })
	if types(all) != "welcome pong" {
		t.Errorf("after auth: %s", types(all))
	}
	query := public.dialAt("/v1/ws/dashboard?api_key=" + trader.token)
	query.await("a welcome", func(m message) bool { return m.Type == "welcome" })
	header := trader.dial()
	made := trader.run("BTC", "momentum")
	for _, s := range []*stream{first, query, header} {
		s.await("the signal", func(m message) bool { return m.signalOf() == made.ID })
	}
}

func TestWithoutARedisServerTheServiceWorksAndWarns(t *testing.T) {
	t.Parallel()
	// At the pace of the clock the market writes a tick of each asset every six seconds,
	// which the server inside the process keeps up with under the race detector.
	c := launchReady(t, "DATA_DIR="+t.TempDir(), "AUTH_REGISTRATION=open", "MARKET_SPEED=1", noPath)
	public := c.client(t)
	r := decode[struct{ Warnings []string }](t, public.get("/readyz").Body)
	if len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "market.source is not set") ||
		!strings.Contains(r.Warnings[1], "nothing survives") || c.log.Line(`"level":"WARN"`, "prices are simulated: set") == "" ||
		c.log.Line("no redis-server is installed",
			"install redis-server or valkey-server 7.0 or later, or set redis.url") == "" {
		t.Errorf("/readyz warns of %q", r.Warnings)
	}
	if line := c.log.Line("redis is started in the data directory"); line != "" {
		t.Errorf("it logs %s", line)
	}
	trader := register(public)
	// On a busy machine the simulated market starts late and may fall behind: then a run is
	// not answered, or fails and is retryable. With the key it counts once.
	repeat := func(key, body string) (a answer) {
		eventually(t, "run "+key, func() bool {
			a = trader.post("/v1/agents/trading/run", body, "Idempotency-Key: "+key)
			p := decode[problem](t, a.Body)
			return a.Status != http.StatusServiceUnavailable && !p.Retryable && p.Code != "idempotency_in_progress"
		})
		return a.ok(t)
	}
	live := trader.dial() // first: the event of a run may come after its answer
	first := decode[wireSignal](t, repeat("first", runBody("BTC", "momentum")).Body)
	before := trader.signals("").Total
	made := decode[wireSignal](t, repeat("run", runBody("ETH", "breakout")).Body)
	var job wireJob
	for try := 0; job.ID == "" || job.Error != nil && job.Error.Retryable; try++ {
		accepted := repeat(fmt.Sprint("job ", try), runBody("AAPL", "mean_reversion", `"async":true`))
		job = trader.awaitJob(decode[wireJob](t, accepted.Body).ID)
	}
	if job.Status != "completed" {
		t.Fatalf("the job ended as %+v", job)
	}
	all := trader.allSignals()
	if len(all) != before+2 || all[0].ID != job.Signal.ID || all[1].ID != made.ID {
		t.Errorf("listed are %d signals, before %d", len(all), before)
	}
	trader.get("/v1/signals/" + made.ID).ok(t)
	live.signals(first.ID, made.ID, job.Signal.ID)
	trader.dial().resumes(live, made.ID, 1)
	a := repeat("again", runBody("BTC", "momentum"))
	if again := repeat("again", runBody("BTC", "momentum")); again.Body != a.Body ||
		again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the replay is %s, the answer was %s", again.Body, a.Body)
	}
}
