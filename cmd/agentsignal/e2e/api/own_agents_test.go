package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

const ownAgent = `{"id":"my_agent","name":"My agent","category":"trading","strategies":["cross","reversal"],
	"defaults":{"timeframe":"1m"}}`

// ownService has simulated prices and two accounts.
func ownService(t *testing.T) (s *e2e.Service, ada, eve *e2e.Client) {
	t.Helper()
	c := e2e.HookConfig(t, redistest.New(t).URL())
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	s = e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.H1)
	s.AwaitPrices(t, "BTC", signal.M1)
	ada, _, _ = s.User(t)
	eve, _, _ = s.User(t)
	return s, ada, eve
}

// TestAnOwnAgentIsAnAgent: its signals are listed, filtered, counted, watched and recorded as those of the service.
func TestAnOwnAgentIsAnAgent(t *testing.T) {
	t.Parallel()
	_, ada, eve := ownService(t)
	created := ada.Post("/v1/agents", ownAgent)
	if created.Status != 201 || !strings.Contains(created.Body, `"owner":"account"`) {
		t.Fatalf("%d %s", created.Status, created.Body)
	}
	submit := func(body string) e2e.Answer { return ada.Post("/v1/agents/my_agent/signals", body) }
	x := e2e.Decode[e2e.WireSignal](t, submit(`{"asset":"btcusdt","strategy":"cross","direction":"long","stop":{"percent":1},
		"target":{"r":2},"expires_in":3600,"confidence":0.9,"reference":"r1","parameters":{"fast":9}}`).Ok(t).Body)
	if x.Asset != "BTC" || x.Direction != "long" || x.Stop == nil || x.Confidence > 0.6 {
		t.Errorf("%+v", x)
	}
	shown := ada.Get("/v1/signals/" + x.ID).Ok(t).Body
	for _, want := range []string{`"agent_id":"my_agent"`, `"claimed_confidence":0.9`, `"parameters":{"fast":9}`,
		`"base_probability":`, `"skill":0,`, `"skill_sample":0`, `"price_age_ms":`, `"horizon_bars":60`, "not yet known"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in %s", want, shown)
		}
	}
	for query, n := range map[string]int{"agent_id=my_agent": 1, "agent_id=trading": 0, "strategy=cross": 1, "asset=BTC": 1} {
		a := ada.Get("/v1/signals?" + query).Ok(t)
		if !strings.Contains(a.Body, fmt.Sprintf(`"total":%d`, n)) {
			t.Errorf("%s: %s", query, a.Body)
		}
	}
	if a := ada.Get("/v1/agents?category=trading").Ok(t); !strings.Contains(a.Body, `"id":"my_agent"`) ||
		!strings.Contains(a.Body, `"total":2`) {
		t.Error(a.Body)
	}
	if a := ada.Get("/v1/summary").Ok(t); !strings.Contains(a.Body, `"agent_id":"my_agent","open":1`) {
		t.Error(a.Body)
	}
	ada.Post("/v1/agents/my_agent/run", `{"asset":"BTC","strategy":"cross"}`).Fails(t, "not_runnable")
	ada.Post("/v1/agents/my_agent/scan", `{"assets":["BTC"],"strategy":"cross"}`).Fails(t, "not_runnable")
	ada.Post("/v1/schedules",
		`{"agent_id":"my_agent","assets":["BTC"],"strategy":"cross","every":"bar"}`).Fails(t, "invalid_request")
	ada.Post("/v1/agents/trading/signals",
		`{"asset":"BTC","strategy":"momentum","direction":"long"}`).Fails(t, "built_in")
	ada.Post("/v1/backtests", `{"agent_id":"my_agent","asset":"BTC","strategy":"cross"}`).Fails(t, "invalid_request")

	// Whose it is not, for them it does not exist.
	const submission = `{"asset":"BTC","strategy":"cross","direction":"long"}`
	for _, a := range []e2e.Answer{eve.Get("/v1/agents/my_agent"), eve.Post("/v1/agents/my_agent/signals", submission),
		eve.Do("PATCH", "/v1/agents/my_agent", `{"name":"x"}`), eve.Do("DELETE", "/v1/agents/my_agent", ""),
		eve.Post("/v1/agents/my_agent/run", `{"asset":"BTC","strategy":"momentum"}`)} {
		a.Fails(t, "not_found")
	}
	if a := eve.Post("/v1/agents", ownAgent); a.Status != 201 { // another account may take the id
		t.Errorf("%d %s", a.Status, a.Body)
	}

	// Removed, it submits nothing more; what it has done stays, and its id is taken.
	if a := ada.Do("DELETE", "/v1/agents/my_agent", ""); a.Status != 204 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	submit(`{"asset":"BTC","strategy":"cross","direction":"long"}`).Fails(t, "not_found")
	ada.Get("/v1/signals/" + x.ID).Ok(t)
	ada.Post("/v1/agents", ownAgent).Fails(t, "name_taken")
}

// TestNoSubmissionCheatsTheRecord: the entry is the service's, and what is not possible is refused with a sentence.
func TestNoSubmissionCheatsTheRecord(t *testing.T) {
	t.Parallel()
	_, ada, _ := ownService(t)
	ada.Post("/v1/agents", ownAgent)
	ada.Post("/v1/agents", `{"id":"my_texts","name":"Texts","category":"content","strategies":["notes"]}`)
	const ok = `{"asset":"BTC","strategy":"cross","direction":"long"`
	submit := func(body string) e2e.Answer { return ada.Post("/v1/agents/my_agent/signals", body) }
	first := submit(ok + `,"reference":"one"}`).Ok(t)
	again := submit(ok + `,"reference":"one","confidence":0.7}`).Ok(t)
	if again.Body != first.Body {
		t.Errorf("the same reference: %s, then %s", first.Body, again.Body)
	}
	submit(`{"asset":"BTC","strategy":"reversal","direction":"long","reference":"one"}`).Fails(t, "reference_used")
	for range 2 { // under an Idempotency-Key, too
		a := ada.Do("POST", "/v1/agents/my_agent/signals", ok+`,"reference":"one"}`, "Idempotency-Key: k").Ok(t)
		if a.Body != first.Body {
			t.Errorf("by a key: %s, want %s", a.Body, first.Body)
		}
	}
	ada.Do("POST", "/v1/agents/my_agent/signals", ok+`,"reference":"two"}`, "Idempotency-Key: k").Fails(t,
		"idempotency_key_reused")
	// What levels are refused is decided by the agent as it is, not as it was.
	ada.Do("PATCH", "/v1/agents/my_agent", `{"defaults":{"timeframe":"1m","stop":{"percent":0.001}}}`).Ok(t)
	submit(ok+"}").Fails(t, "invalid_request")
	ada.Do("PATCH", "/v1/agents/my_agent", `{"defaults":{"timeframe":"1m"}}`).Ok(t)
	submit(ok + "}").Ok(t)
	entry := *e2e.Decode[e2e.WireSignal](t, first.Body).Entry
	submit(fmt.Sprintf(`%s,"price":%g}`, ok, entry)).Ok(t)
	p := submit(fmt.Sprintf(`%s,"price":%g}`, ok, entry*0.9)).Fails(t, "price_moved")
	if !strings.Contains(p.Detail, "the market is at") {
		t.Error(p.Detail)
	}
	for members, want := range map[string]string{
		`"stop":{"price":` + fmt.Sprint(entry*2) + `}`: "/stop",
		`"stop":{"percent":0.0001}`:                    "/stop",
		`"stop":{"percent":90}`:                        "/stop",
		`"target":{"r":0.01}`:                          "/target",
		// Two ticks against 20 ATR would be hit nearly always.
		fmt.Sprintf(`"stop":{"atr":20},"target":{"price":%v}`, entry+0.02): "/target",
		`"target":{"percent":0}`:       "/target/percent",
		`"target":{"atr":5000}`:        "/target",
		`"stop":{"percent":1,"atr":2}`: "/stop",
		`"stop":{"r":1}`:               "/stop/r",
		`"stop":"95"`:                  "/stop",
		`"expires_in":59`:              "/expires_in",
		`"confidence":1.01`:            "/confidence",
		`"parameters":{"a":"` + strings.Repeat("x", 4096) + `"}`: "/parameters",
		`"parameters":{"a":{"b":1,"b":2}}`:                       "/parameters",
		`"parameters":{"a":1e400}`:                               "/parameters",
		`"content":"a text"`:                                     "/content",
		`"price":0`:                                              "/price",
	} {
		p := submit(ok+","+members+"}").Fails(t, "invalid_request")
		if len(p.Errors) == 0 || p.Errors[0].Pointer != want {
			t.Errorf("%s: %+v, want %s", members, p, want)
		}
	}
	p = submit(`{"asset":"BTCX","strategy":"cross","direction":"long"}`).Fails(t, "invalid_request")
	if !strings.Contains(fmt.Sprint(p.Errors), "/asset") {
		t.Errorf("%+v", p)
	}
	text := ada.Post("/v1/agents/my_texts/signals",
		`{"asset":"standing desks","strategy":"notes","content":"# On desks"}`).Ok(t)
	if !strings.Contains(text.Body, `"measure":"claimed"`) || !strings.Contains(text.Body, `"confidence":0.5`) ||
		!strings.Contains(text.Body, `"entry_price":null`) {
		t.Error(text.Body)
	}
	ada.Post("/v1/agents/my_texts/signals",
		`{"asset":"x","strategy":"notes","content":"y","stop":{"percent":1}}`).Fails(t, "invalid_request")
}
