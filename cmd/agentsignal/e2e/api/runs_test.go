package api

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAnAccountGetsFromLoginToASignal(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s, _, _ := e2e.StartTrading(t, redis)
	out, err := e2e.StoreOperator(t, redis.URL(), "").Try(e2e.Password+"\n",
		"account", "create", "--email", " Ada@Example.com ", "--password-stdin")
	if err != nil {
		t.Fatalf("create account: %v", err)
	}
	account := e2e.Decode[e2e.AccountJSON](t, out)

	public := s.Client(t)
	user := public.With(public.Login("ada@example.com", e2e.Password).Access)
	if got := user.Get("/v1/account").Ok(t).Body; !e2e.Same(got, out) {
		t.Errorf("GET /account returns %s, the command printed %s", got, out)
	}
	trader := public.With(user.Key("laptop", "").Secret)
	if got := e2e.Decode[e2e.AccountJSON](t, trader.Get("/v1/account").Ok(t).Body); got != account {
		t.Errorf("the key is of %+v, want %+v", got, account)
	}

	live := trader.Dial()
	ran := trader.TryRun("ACME", "momentum").Ok(t)
	run, made := ran.Header.Get("X-Run-Id"), e2e.Decode[e2e.WireSignal](t, ran.Body)
	if *made.Entry != 101.25 {
		t.Errorf("entry_price is %v, want the last tick's 101.25", *made.Entry)
	}

	// It is listed at once, by both credentials, and by its id.
	for _, who := range []*e2e.Client{trader, user} {
		listed := who.Signals("")
		if listed.Total != 1 || len(listed.Signals) != 1 || listed.Signals[0].ID != made.ID {
			t.Errorf("GET /signals has %+v", listed)
		}
		got := who.Get("/v1/signals/" + made.ID).Ok(t).Body
		if !e2e.Same(e2e.Members(t, got, e2e.SignalMembers...), ran.Body) {
			t.Errorf("GET /signals/{id} is %s, the run answered %s", got, ran.Body)
		}
		if status := e2e.Members(t, got, "status", "closed_at"); !e2e.Same(status, `{"status":"open","closed_at":null}`) {
			t.Errorf("a new signal has the state %s", status)
		}
	}

	// The stream has the events of the run in order.
	all := live.Until("the end of the run", func(all []e2e.Message) bool {
		return len(all) > 0 && all[len(all)-1].StatusOf() == e2e.RunStatus{Agent: "trading", Status: "completed", Run: run}
	})
	if want := "welcome agent.status signal.new agent.status"; e2e.Types(all) != want {
		t.Fatalf("the stream sent: %s, want: %s", e2e.Types(all), want)
	}
	if first := all[1].StatusOf(); first != (e2e.RunStatus{Agent: "trading", Status: "running", Run: run}) {
		t.Errorf("the first message is %+v", first)
	}
	if !e2e.Same(string(all[2].Data), ran.Body) {
		t.Errorf("signal.new is %s, the run answered %s", all[2].Data, ran.Body)
	}
}

func TestAClientReadsItsOwnWrites(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	// Workers of one account read while the others write.
	trader, _ := s.Account(t)
	const workers, runs = 4, 15
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			asset := []string{"BTC", "ETH", "AAPL", "oil"}[w]
			for n := 1; n <= runs; n++ {
				made := trader.Run(asset, []string{"momentum", "breakout", "mean_reversion"}[n%3])
				trader.Lists("limit=100&asset="+strings.ToLower(asset), n, made.ID)
			}
		})
	}
	wg.Wait()
	if all := trader.AllSignals(); len(all) != workers*runs {
		t.Errorf("%d signals are listed, want %d", len(all), workers*runs)
	}
}

func TestAClientReadsItsOwnWritesFromANodeThatLags(t *testing.T) {
	t.Parallel()
	// Each read of the event log keeps the node busy for a while, so that the next events
	// reach it late.
	_, trader, _ := e2e.StartTrading(t, redistest.New(t), func(i *service.Instance) {
		i.Tail().Subscribe(func(int, []signal.Event) { time.Sleep(40 * time.Millisecond) })
	})
	for n := 1; n <= 10; n++ {
		trader.Run("ACME", "breakout") // keeps the node busy
		made := trader.Run("ACME", "momentum")
		trader.Lists("limit=1", 2*n, made.ID)
		trader.Get("/v1/signals/" + made.ID).Ok(t)
	}
}

func TestAJobIsPolledUntilItIsCompleted(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	live := trader.Dial()
	accepted := trader.TryRun("eth", "breakout", `"async":true`, `"timeframe":"1d"`, `"risk_level":"high"`).Ok(t)
	job := e2e.Decode[e2e.WireJob](t, accepted.Body)
	if job.Status != "queued" || accepted.Header.Get("Location") != "/v1/jobs/"+job.ID ||
		accepted.Header.Get("Retry-After") != "1" {
		t.Errorf("a job is accepted with %s, Location %q, Retry-After %q", accepted.Body,
			accepted.Header.Get("Location"), accepted.Header.Get("Retry-After"))
	}
	done := trader.Completed(job.ID)
	if done.Signal.Asset != "ETH" {
		t.Errorf("the job ended as %+v", done)
	}
	ended := trader.Get("/v1/jobs/" + job.ID)
	if ended.Header.Get("Retry-After") != "" {
		t.Error("a job that ended has Retry-After")
	}
	stored := trader.Get("/v1/signals/" + done.Signal.ID).Ok(t).Body
	whole := e2e.Decode[struct{ Signal any }](t, ended.Body)
	if !e2e.Same(e2e.Members(t, stored, e2e.SignalMembers...), e2e.JsonOf(t, whole.Signal)) {
		t.Errorf("the job's signal is %s, stored is %s", e2e.JsonOf(t, whole.Signal), stored)
	}
	trader.Lists("asset=ETH", 1, done.Signal.ID)
	live.Await("the end of the job's run", func(m e2e.Message) bool {
		return m.StatusOf() == e2e.RunStatus{Agent: "trading", Status: "completed", Run: job.Run}
	})
	if list := e2e.Decode[struct{ Total int }](t, trader.Get("/v1/jobs?status=completed").Ok(t).Body); list.Total != 1 {
		t.Errorf("%d completed jobs are listed", list.Total)
	}
}

func TestARepeatedRequestIsAnsweredWithoutANewSignal(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	for name, body := range map[string]string{"run": e2e.RunBody("BTC", "momentum"),
		"job": e2e.RunBody("BTC", "momentum", `"async":true`)} {
		key := "Idempotency-Key: " + name + " 1"
		// Of many concurrent requests one runs; the others must wait or are replayed.
		answers := make([]e2e.Answer, 8)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = trader.Post("/v1/agents/trading/run", body, key) })
		}
		wg.Wait()
		var first e2e.Answer
		for _, a := range answers {
			switch {
			case a.Status == http.StatusOK && a.Header.Get("Idempotency-Replayed") == "":
				if first.Status != 0 {
					t.Errorf("%s: the request was carried out twice", name)
				}
				first = a
			case a.Status == http.StatusConflict:
				a.Fails(t, "idempotency_in_progress")
			case a.Status != http.StatusOK:
				t.Errorf("%s: a repeated request is answered with %d %s", name, a.Status, a.Body)
			}
		}
		if first.Status == 0 {
			t.Fatalf("%s: no request was carried out", name)
		}
		again := trader.Post("/v1/agents/trading/run", body, key).Ok(t)
		if again.Header.Get("Idempotency-Replayed") != "true" || again.Body != first.Body ||
			again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("%s: the replay is %v %s, the first answer was %s", name, again.Header, again.Body, first.Body)
		}
		for _, a := range answers {
			if a.Status == http.StatusOK && a.Body != first.Body {
				t.Errorf("%s: one answer is %s, another %s", name, a.Body, first.Body)
			}
		}
		trader.Post("/v1/agents/trading/run", e2e.RunBody("ETH", "momentum"), key).Fails(t, "idempotency_key_reused")
		if name == "job" {
			trader.AwaitJob(e2e.Decode[e2e.WireJob](t, first.Body).ID)
		}
	}
	if all := trader.AllSignals(); len(all) != 2 {
		t.Errorf("%d signals are listed, want one of the run and one of the job", len(all))
	}
}

func TestARunThatFailsReportsWhyAndFreesItsKey(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	live := trader.Dial()
	for _, test := range []struct{ agent, body, message string }{
		{"trading", e2e.RunBody("NOSUCH", "momentum"), "no source knows NOSUCH"},
		{"weather", e2e.RunBody("natural_gas", "energy_demand", `"parameters":{"region":"us"}`),
			"no source knows natural_gas"},
	} {
		for range 2 { // the key of a request that failed may be used again
			failed := trader.Post("/v1/agents/"+test.agent+"/run", test.body, "Idempotency-Key: "+test.agent)
			p := failed.Fails(t, "agent_failed")
			if p.ErrorCode != "DATA_UNAVAILABLE" || p.Retryable || !strings.Contains(p.Detail, test.message) ||
				p.RunID != failed.Header.Get("X-Run-Id") {
				t.Errorf("%s fails with %s", test.agent, failed.Body)
			}
			all := live.Until("the failure", func(all []e2e.Message) bool {
				return all[len(all)-1].StatusOf() == e2e.RunStatus{Agent: test.agent, Status: "error", Run: p.RunID}
			})
			running := e2e.RunStatus{Agent: test.agent, Status: "running", Run: p.RunID}
			if before := all[len(all)-2].StatusOf(); before != running {
				t.Errorf("%s: before the error: %+v", test.agent, before)
			}
		}
	}
	job := trader.AwaitJob(trader.Submit("NOSUCH", "momentum").ID)
	if job.Status != "error" || job.Error == nil || job.Error.Code != "DATA_UNAVAILABLE" || job.Error.Retryable ||
		job.Signal != nil {
		t.Errorf("a job without data ends as %+v", job)
	}
	trader.Lists("", 0) // failed runs leave nothing
}

func TestAccountsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	ada, _ := s.Account(t)
	eve, _ := s.Account(t)
	hers := eve.Dial()
	made := ada.Run("BTC", "momentum")
	job := ada.AwaitJob(ada.Submit("BTC", "momentum").ID)
	eve.Get("/v1/signals/"+made.ID).Fails(t, "not_found")
	eve.Get("/v1/jobs/"+job.ID).Fails(t, "not_found")
	eve.Lists("", 0)
	// Her own run ends the wait for messages that must not come.
	own := eve.Run("BTC", "momentum")
	all := hers.Until("the end of her own run",
		func(all []e2e.Message) bool { return all[len(all)-1].StatusOf().Status == "completed" })
	if want := "welcome agent.status signal.new agent.status"; e2e.Types(all) != want || all[2].SignalOf() != own.ID {
		t.Errorf("her stream sent: %s, want: %s", e2e.Types(all), want)
	}
}

func TestAStreamIsFilteredAndResumed(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	first, narrow := trader.Dial(), trader.Dial()
	if d := narrow.Subscribe(`"channels":["signal.new"],"filters":{"assets":["eth"]}`); len(d.Channels) != 1 ||
		d.Resumed != nil {
		t.Errorf("subscribed: %+v", d)
	}
	var made []string
	for i := range 6 {
		made = append(made, trader.Run([]string{"BTC", "ETH"}[i%2], "momentum").ID)
	}
	first.Signals(made...)
	narrow.Signals(made[1], made[3], made[5])

	// One reconnects and resumes after the second signal.
	back := trader.Dial()
	back.Resumes(first, made[1], 4)
	made = append(made, trader.Run("BTC", "momentum").ID)
	back.Signals(made[2:]...)
	if d := trader.Dial().Subscribe(`"last_event_id":"1-0"`); d.Resumed == nil || d.Resumed.Complete ||
		d.Resumed.Replayed != 0 {
		t.Errorf("an unknown position is resumed from: %+v", d.Resumed)
	}
}
