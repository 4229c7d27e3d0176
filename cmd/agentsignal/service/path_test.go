package service

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAnAccountGetsFromLoginToASignal(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, _, _ := startTrading(t, redis)
	out, err := storeOperator(t, redis.URL(), "").Try(password+"\n",
		"account", "create", "--email", " Ada@Example.com ", "--password-stdin")
	if err != nil {
		t.Fatalf("create account: %v", err)
	}
	account := decode[accountJSON](t, out)

	public := s.client(t)
	user := public.with(public.login("ada@example.com", password).Access)
	if got := user.get("/v1/account").ok(t).Body; !same(got, out) {
		t.Errorf("GET /account returns %s, the command printed %s", got, out)
	}
	trader := public.with(user.key("laptop", "").Secret)
	if got := decode[accountJSON](t, trader.get("/v1/account").ok(t).Body); got != account {
		t.Errorf("the key is of %+v, want %+v", got, account)
	}

	live := trader.dial()
	ran := trader.tryRun("ACME", "momentum").ok(t)
	run, made := ran.Header.Get("X-Run-Id"), decode[wireSignal](t, ran.Body)
	if *made.Entry != 101.25 {
		t.Errorf("entry_price is %v, want the last tick's 101.25", *made.Entry)
	}

	// It is listed at once, by both credentials, and by its id.
	for _, who := range []*client{trader, user} {
		listed := who.signals("")
		if listed.Total != 1 || len(listed.Signals) != 1 || listed.Signals[0].ID != made.ID {
			t.Errorf("GET /signals has %+v", listed)
		}
		got := who.get("/v1/signals/" + made.ID).ok(t).Body
		if !same(members(t, got, signalMembers...), ran.Body) {
			t.Errorf("GET /signals/{id} is %s, the run answered %s", got, ran.Body)
		}
		if status := members(t, got, "status", "closed_at"); !same(status, `{"status":"open","closed_at":null}`) {
			t.Errorf("a new signal has the state %s", status)
		}
	}

	// The stream has the events of the run in order.
	all := live.until("the end of the run", func(all []message) bool {
		return len(all) > 0 && all[len(all)-1].statusOf() == runStatus{"trading", "completed", run}
	})
	if want := "welcome agent.status signal.new agent.status"; types(all) != want {
		t.Fatalf("the stream sent: %s, want: %s", types(all), want)
	}
	if first := all[1].statusOf(); first != (runStatus{"trading", "running", run}) {
		t.Errorf("the first message is %+v", first)
	}
	if !same(string(all[2].Data), ran.Body) {
		t.Errorf("signal.new is %s, the run answered %s", all[2].Data, ran.Body)
	}
}

func TestAClientReadsItsOwnWrites(t *testing.T) {
	t.Parallel()
	s := shared(t)
	// Workers of one account read while the others write.
	trader, _ := s.account(t)
	const workers, runs = 4, 15
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			asset := []string{"BTC", "ETH", "AAPL", "oil"}[w]
			for n := 1; n <= runs; n++ {
				made := trader.run(asset, []string{"momentum", "breakout", "mean_reversion"}[n%3])
				trader.lists("limit=100&asset="+strings.ToLower(asset), n, made.ID)
			}
		})
	}
	wg.Wait()
	if all := trader.allSignals(); len(all) != workers*runs {
		t.Errorf("%d signals are listed, want %d", len(all), workers*runs)
	}
}

func TestAClientReadsItsOwnWritesFromANodeThatLags(t *testing.T) {
	t.Parallel()
	// Each read of the event log keeps the node busy for a while, so that the next events
	// reach it late.
	_, trader, _ := startTrading(t, redistest.New(t), func(p *process) {
		p.tail.Subscribe(func(int, []signal.Event) { time.Sleep(40 * time.Millisecond) })
	})
	for n := 1; n <= 10; n++ {
		trader.run("ACME", "breakout") // keeps the node busy
		made := trader.run("ACME", "momentum")
		trader.lists("limit=1", 2*n, made.ID)
		trader.get("/v1/signals/" + made.ID).ok(t)
	}
}

func TestAJobIsPolledUntilItIsCompleted(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	live := trader.dial()
	accepted := trader.tryRun("eth", "breakout", `"async":true`, `"timeframe":"1d"`, `"risk_level":"high"`).ok(t)
	job := decode[wireJob](t, accepted.Body)
	if job.Status != "queued" || accepted.Header.Get("Location") != "/v1/jobs/"+job.ID ||
		accepted.Header.Get("Retry-After") != "1" {
		t.Errorf("a job is accepted with %s, Location %q, Retry-After %q", accepted.Body,
			accepted.Header.Get("Location"), accepted.Header.Get("Retry-After"))
	}
	done := trader.completed(job.ID)
	if done.Signal.Asset != "ETH" {
		t.Errorf("the job ended as %+v", done)
	}
	ended := trader.get("/v1/jobs/" + job.ID)
	if ended.Header.Get("Retry-After") != "" {
		t.Error("a job that ended has Retry-After")
	}
	stored := trader.get("/v1/signals/" + done.Signal.ID).ok(t).Body
	whole := decode[struct{ Signal any }](t, ended.Body)
	if !same(members(t, stored, signalMembers...), jsonOf(t, whole.Signal)) {
		t.Errorf("the job's signal is %s, stored is %s", jsonOf(t, whole.Signal), stored)
	}
	trader.lists("asset=ETH", 1, done.Signal.ID)
	live.await("the end of the job's run", func(m message) bool {
		return m.statusOf() == runStatus{"trading", "completed", job.Run}
	})
	if list := decode[struct{ Total int }](t, trader.get("/v1/jobs?status=completed").ok(t).Body); list.Total != 1 {
		t.Errorf("%d completed jobs are listed", list.Total)
	}
}

func TestARepeatedRequestIsAnsweredWithoutANewSignal(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	for name, body := range map[string]string{"run": runBody("BTC", "momentum"),
		"job": runBody("BTC", "momentum", `"async":true`)} {
		key := "Idempotency-Key: " + name + " 1"
		// Of many concurrent requests one runs; the others must wait or are replayed.
		answers := make([]answer, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = trader.post("/v1/agents/trading/run", body, key) })
		}
		wg.Wait()
		var first answer
		for _, a := range answers {
			switch {
			case a.Status == http.StatusOK && a.Header.Get("Idempotency-Replayed") == "":
				if first.Status != 0 {
					t.Errorf("%s: the request was carried out twice", name)
				}
				first = a
			case a.Status == http.StatusConflict:
				a.fails(t, "idempotency_in_progress")
			case a.Status != http.StatusOK:
				t.Errorf("%s: a repeated request is answered with %d %s", name, a.Status, a.Body)
			}
		}
		if first.Status == 0 {
			t.Fatalf("%s: no request was carried out", name)
		}
		again := trader.post("/v1/agents/trading/run", body, key).ok(t)
		if again.Header.Get("Idempotency-Replayed") != "true" || again.Body != first.Body ||
			again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("%s: the replay is %v %s, the first answer was %s", name, again.Header, again.Body, first.Body)
		}
		for _, a := range answers {
			if a.Status == http.StatusOK && a.Body != first.Body {
				t.Errorf("%s: one answer is %s, another %s", name, a.Body, first.Body)
			}
		}
		trader.post("/v1/agents/trading/run", runBody("ETH", "momentum"), key).fails(t, "idempotency_key_reused")
		if name == "job" {
			trader.awaitJob(decode[wireJob](t, first.Body).ID)
		}
	}
	if all := trader.allSignals(); len(all) != 2 {
		t.Errorf("%d signals are listed, want one of the run and one of the job", len(all))
	}
}

func TestARunThatFailsReportsWhyAndFreesItsKey(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	live := trader.dial()
	for _, test := range []struct{ agent, body, message string }{
		{"trading", runBody("NOSUCH", "momentum"), "no source knows NOSUCH"},
		{"weather", runBody("natural_gas", "energy_demand", `"parameters":{"region":"us"}`),
			"no source knows natural_gas"},
	} {
		for range 2 { // the key of a request that failed may be used again
			failed := trader.post("/v1/agents/"+test.agent+"/run", test.body, "Idempotency-Key: "+test.agent)
			p := failed.fails(t, "agent_failed")
			if p.ErrorCode != "DATA_UNAVAILABLE" || p.Retryable || !strings.Contains(p.Detail, test.message) ||
				p.RunID != failed.Header.Get("X-Run-Id") {
				t.Errorf("%s fails with %s", test.agent, failed.Body)
			}
			all := live.until("the failure", func(all []message) bool {
				return all[len(all)-1].statusOf() == runStatus{test.agent, "error", p.RunID}
			})
			if before := all[len(all)-2].statusOf(); before != (runStatus{test.agent, "running", p.RunID}) {
				t.Errorf("%s: before the error: %+v", test.agent, before)
			}
		}
	}
	job := trader.awaitJob(trader.submit("NOSUCH", "momentum").ID)
	if job.Status != "error" || job.Error == nil || job.Error.Code != "DATA_UNAVAILABLE" || job.Error.Retryable ||
		job.Signal != nil {
		t.Errorf("a job without data ends as %+v", job)
	}
	trader.lists("", 0) // failed runs leave nothing
}

func TestAccountsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ada, _ := s.account(t)
	eve, _ := s.account(t)
	hers := eve.dial()
	made := ada.run("BTC", "momentum")
	job := ada.awaitJob(ada.submit("BTC", "momentum").ID)
	eve.get("/v1/signals/"+made.ID).fails(t, "not_found")
	eve.get("/v1/jobs/"+job.ID).fails(t, "not_found")
	eve.lists("", 0)
	// Her own run ends the wait for messages that must not come.
	own := eve.run("BTC", "momentum")
	all := hers.until("the end of her own run",
		func(all []message) bool { return all[len(all)-1].statusOf().Status == "completed" })
	if want := "welcome agent.status signal.new agent.status"; types(all) != want || all[2].signalOf() != own.ID {
		t.Errorf("her stream sent: %s, want: %s", types(all), want)
	}
}

func TestAStreamIsFilteredAndResumed(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	first, narrow := trader.dial(), trader.dial()
	if d := narrow.subscribe(`"channels":["signal.new"],"filters":{"assets":["eth"]}`); len(d.Channels) != 1 ||
		d.Resumed != nil {
		t.Errorf("subscribed: %+v", d)
	}
	var made []string
	for i := range 6 {
		made = append(made, trader.run([]string{"BTC", "ETH"}[i%2], "momentum").ID)
	}
	first.signals(made...)
	narrow.signals(made[1], made[3], made[5])

	// One reconnects and resumes after the second signal.
	back := trader.dial()
	back.resumes(first, made[1], 4)
	made = append(made, trader.run("BTC", "momentum").ID)
	back.signals(made[2:]...)
	if d := trader.dial().subscribe(`"last_event_id":"1-0"`); d.Resumed == nil || d.Resumed.Complete ||
		d.Resumed.Replayed != 0 {
		t.Errorf("an unknown position is resumed from: %+v", d.Resumed)
	}
}
