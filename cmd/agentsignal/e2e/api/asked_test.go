package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// question is what an agent is asked.
type question struct {
	Run       string `json:"run_id"`
	Agent     string `json:"agent_id"`
	Asset     string
	Strategy  string
	Timeframe string
	Price     float64
	Bars      []struct{ Close float64 }
}

// wireAgent is an agent of an account as clients see it.
type wireAgent struct {
	Endpoint *struct {
		URL, Secret string
		Health      *struct {
			Failures    int
			PausedUntil *time.Time `json:"paused_until"`
			LastError   *struct {
				Code string `json:"error_code"`
			} `json:"last_error"`
		}
	}
}

// addAsked registers an agent that is asked at an endpoint, and returns it.
func addAsked(t *testing.T, c *e2e.Client, id, url string) wireAgent {
	t.Helper()
	return e2e.Decode[wireAgent](t, c.Post("/v1/agents", fmt.Sprintf(`{"id":%q,"name":"Asked","category":"trading",
		"strategies":["cross","quiet"],"defaults":{"timeframe":"1m"},"endpoint":{"url":%q}}`, id, url)).Want(t, 201).Body)
}

// answering returns an endpoint whose agent goes long by the strategy cross, and has no signal by quiet.
func answering(t *testing.T) *e2e.HookEndpoint {
	t.Helper()
	return e2e.NewHookEndpoint(t, func(w http.ResponseWriter, a e2e.HookRequest) {
		if e2e.Decode[question](t, a.Body).Strategy == "quiet" {
			io.WriteString(w, `{"signal":null,"reason":"nothing to do"}`)
			return
		}
		io.WriteString(w, `{"direction":"long","stop":{"percent":1},"target":{"r":2},"confidence":0.9,"timeframe":"1m"}`)
	})
}

// TestAnAgentIsAsked: runs, jobs, scans and schedules of an agent with an endpoint.
func TestAnAgentIsAsked(t *testing.T) {
	t.Parallel()
	s, ada, eve := ownService(t)
	endpoint := answering(t)
	added := addAsked(t, ada, "my_agent", endpoint.URL)
	if e := added.Endpoint; e.URL != endpoint.URL || !strings.HasPrefix(e.Secret, "whsec_") || e.Health != nil {
		t.Errorf("registered with %+v", e)
	}
	const run, scan = "/v1/agents/my_agent/run", "/v1/agents/my_agent/scan"
	a := ada.Post(run, e2e.RunBody("btcusdt", "cross")).Ok(t)
	x := e2e.Decode[e2e.WireSignal](t, a.Body)
	if x.Agent != "my_agent" || x.Asset != "BTC" || x.Direction != "long" || x.Stop == nil || x.Confidence > 0.6 ||
		!strings.Contains(a.Body, `"claimed_confidence":0.9`) {
		t.Error(a.Body)
	}
	asked := endpoint.Await(t, 1)[0]
	asked.VerifyStandard(t, added.Endpoint.Secret)
	q := e2e.Decode[question](t, asked.Body)
	if q.Run != a.Header.Get("X-Run-Id") || asked.Event() != q.Run || q.Agent != "my_agent" || q.Asset != "BTC" ||
		q.Strategy != "cross" || q.Timeframe != "1m" || q.Price <= 0 || len(q.Bars) != 300 {
		t.Errorf("run %s is asked as %.300s, %v", a.Header.Get("X-Run-Id"), asked.Body, asked.Header)
	}
	ada.Lists("agent_id=my_agent", 1, x.ID)

	p := ada.Post(run, e2e.RunBody("BTC", "quiet")).Fails(t, "no_signal")
	if p.Detail != "nothing to do" {
		t.Errorf("no_signal has the detail %q", p.Detail)
	}
	job := func(path, body string) e2e.Answer {
		j := e2e.Decode[e2e.WireJob](t, ada.Post(path, body).Ok(t).Body)
		ada.AwaitJob(j.ID)
		return ada.Get("/v1/jobs/" + j.ID).Ok(t)
	}
	if j := job(run, e2e.RunBody("BTC", "cross", `"async":true`)); !strings.Contains(j.Body, `"signal":{"signal_id"`) {
		t.Error(j.Body)
	}
	j := job(run, e2e.RunBody("BTC", "quiet", `"async":true`))
	for _, want := range []string{`"status":"completed"`, `"signal":null`, `"error":null`, `"reason":"nothing to do"`} {
		if !strings.Contains(j.Body, want) {
			t.Errorf("%s is not in %s", want, j.Body)
		}
	}
	before := len(endpoint.Got())
	if j := job(scan, `{"assets":["BTC","ETH"],"strategy":"cross"}`); !strings.Contains(j.Body, `"strength":null`) ||
		strings.Count(j.Body, `"direction":"long"`) != 2 {
		t.Error(j.Body)
	}
	ids := map[string]bool{}
	for _, a := range endpoint.Got()[before:] {
		ids[a.Event()] = true
	}
	if len(ids) != 2 {
		t.Errorf("the questions of a scan have the ids %v", ids)
	}
	if j := job(scan, `{"assets":["BTC"],"strategy":"quiet"}`); !strings.Contains(j.Body,
		`"no_signal":[{"asset":"BTC","reason":"nothing to do"}]`) {
		t.Error(j.Body)
	}
	for strategy, signals := range map[string]int{"cross": 4, "quiet": 0} {
		w := ada.AddSchedule(fmt.Sprintf(`{"agent_id":"my_agent","assets":["BTC","ETH"],"strategy":%q,"every":"1440m",`+
			`"max_open":9}`, strategy))
		if got := ada.AfterRound(w.ID); got.Failures != 0 || got.LastError != nil {
			t.Errorf("after a round of %s: %+v", strategy, got)
		}
		ada.Lists("agent_id=my_agent&strategy="+strategy, signals)
	}
	if n := s.Metric(t, "agentsignal_agent_asks_total", `result="success"`); n != 6 {
		t.Errorf("%v questions succeeded, want 6", n)
	}

	// Its secret is shown no more, and others do not have it.
	shown := ada.Get("/v1/agents/my_agent").Ok(t)
	got := e2e.Decode[wireAgent](t, shown.Body).Endpoint
	if got.URL != endpoint.URL || got.Secret != "" || got.Health.Failures != 0 {
		t.Error(shown.Body)
	}
	if a := ada.Do("PATCH", "/v1/agents/my_agent", `{"name":"x"}`).Ok(t); strings.Contains(a.Body, "whsec_") {
		t.Error(a.Body)
	}
	eve.Post(run, e2e.RunBody("BTC", "momentum")).Fails(t, "not_found")
	eve.Post(scan, `{"assets":["BTC"],"strategy":"momentum"}`).Fails(t, "not_found")
	eve.Post("/v1/schedules",
		`{"agent_id":"my_agent","assets":["BTC"],"strategy":"cross","every":"bar"}`).Fails(t, "invalid_request")
	ada.Post("/v1/backtests", `{"agent_id":"my_agent","asset":"BTC","strategy":"cross"}`).Fails(t, "invalid_request")

	// Without an endpoint it is not run any more.
	if a := ada.Do("PATCH", "/v1/agents/my_agent", `{"endpoint":null}`).Ok(t); !strings.Contains(a.Body, `"endpoint":null`) {
		t.Error(a.Body)
	}
	ada.Post(run, e2e.RunBody("BTC", "cross")).Fails(t, "not_runnable")
}

// TestEndpointsOfAgentsThatFail: each fault ends the run and has its code, and nothing but the run.
func TestEndpointsOfAgentsThatFail(t *testing.T) {
	t.Parallel()
	c := e2e.HookConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	c.Runs.Timeout = configs.Duration(5 * time.Second)
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.M1)
	ada, _, _ := s.User(t)
	says := func(status int, text string) func(http.ResponseWriter, e2e.HookRequest) {
		return func(w http.ResponseWriter, _ e2e.HookRequest) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, text)
		}
	}
	run := func(id string) e2e.Answer { return ada.Post("/v1/agents/"+id+"/run", e2e.RunBody("BTC", "cross")) }
	for id, x := range map[string]struct {
		answer     func(w http.ResponseWriter, a e2e.HookRequest)
		code, want string
	}{
		"huge": {func(w http.ResponseWriter, _ e2e.HookRequest) {
			for range 100 << 10 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<10)); err != nil {
					return
				}
			}
		}, "AGENT_REPLY_INVALID", "more than 65536 bytes"},
		"redirects": {says(307, ""), "AGENT_UNREACHABLE", "redirects are not followed"},
		"refuses":   {says(503, ""), "AGENT_UNREACHABLE", "status 503"},
		"no_json":   {says(200, "long"), "AGENT_REPLY_INVALID", "cannot be read"},
		"nothing":   {says(200, `{}`), "AGENT_REPLY_INVALID", "direction is required"},
		"asset":     {says(200, `{"direction":"long","asset":"ETH"}`), "AGENT_REPLY_INVALID", "asset"},
		"other":     {says(200, `{"direction":"long","timeframe":"1d"}`), "AGENT_REPLY_INVALID", "must be that of the question"},
		"reference": {says(200, `{"direction":"long","reference":"r"}`), "AGENT_REPLY_INVALID", "run_id"},
		"levels":    {says(200, `{"direction":"long","stop":{"percent":0.0001}}`), "AGENT_REPLY_INVALID", "stop would be"},
		"moved":     {says(200, `{"direction":"long","price":1}`), "AGENT_REPLY_INVALID", "price is 1 and the market"},
	} {
		addAsked(t, ada, id, e2e.NewHookEndpoint(t, x.answer).URL)
		p := run(id).Fails(t, "agent_failed")
		if p.ErrorCode != x.code || !strings.Contains(p.Detail, x.want) || p.RunID == "" {
			t.Errorf("%s: %+v", id, p)
		}
	}
	// One that hangs, and answers after its run has ended.
	hanging := e2e.NewHangingEndpoint(t)
	addAsked(t, ada, "hangs", hanging.URL)
	if p := run("hangs").Fails(t, "agent_failed"); p.ErrorCode != "AGENT_TIMEOUT" || !p.Retryable {
		t.Errorf("one that hangs: %+v", p)
	}
	hanging.Release()
	ada.Lists("", 0)

	// After five failures in a row it is not asked.
	failing := e2e.NewFailingEndpoint(t, 500, "")
	addAsked(t, ada, "fails", failing.URL)
	for range 5 {
		run("fails").Fails(t, "agent_failed")
	}
	a := run("fails")
	if p := a.Fails(t, "agent_paused"); a.Header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "status 500") ||
		len(failing.Got()) != 5 {
		t.Errorf("a paused agent was asked %d times: %+v", len(failing.Got()), p)
	}
	h := e2e.Decode[wireAgent](t, ada.Get("/v1/agents/fails").Ok(t).Body).Endpoint.Health
	if h.Failures != 5 || h.PausedUntil == nil || h.LastError == nil || h.LastError.Code != "AGENT_UNREACHABLE" {
		t.Errorf("its health is %+v", h)
	}
	job := e2e.Decode[e2e.WireJob](t, ada.Post("/v1/agents/fails/run", e2e.RunBody("BTC", "cross", `"async":true`)).Ok(t).Body)
	if job = ada.AwaitJob(job.ID); job.Error == nil || job.Error.Code != "AGENT_UNREACHABLE" || !job.Error.Retryable {
		t.Errorf("a job of a paused agent ends as %+v", job)
	}
	if n := s.Metric(t, "agentsignal_agents_paused"); n != 1 {
		t.Errorf("%v agents are paused", n)
	}

	// What may not be an endpoint is refused where it is set.
	for _, endpoint := range []string{`{"url":"http://10.1.2.3/"}`, `{"url":"https://169.254.169.254/"}`, `{"url":"x"}`, `{}`,
		`"https://example.com"`, `{"url":"https://example.com","secret":"` + strings.Repeat("x", 257) + `"}`} {
		ada.Do("PATCH", "/v1/agents/fails", `{"endpoint":`+endpoint+`}`).Fails(t, "invalid_request")
	}
}
