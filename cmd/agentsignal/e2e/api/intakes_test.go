package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/chartalert"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// alertText is the message of the console as TradingView fills it in.
func alertText(symbol, position string, more ...string) string {
	return strings.NewReplacer(append([]string{"{{exchange}}:{{ticker}}", symbol, "{{strategy.market_position}}", position,
		"{{close}}", "0", "{{interval}}", "1", "{{strategy.order.id}}", "Long"}, more...)...).Replace(chartalert.Template(nil))
}

// TestAlertsOfChartsBecomeSignals: from the message of the console to the signal, and what follows in its life.
func TestAlertsOfChartsBecomeSignals(t *testing.T) {
	t.Parallel()
	s, ada, eve := ownService(t)
	ada.Post("/v1/agents", ownAgent).Want(t, 201)
	in := e2e.AddIntake(t, ada, "my_agent")
	if !strings.HasPrefix(in.Token, "ain_") || len(in.Token) != 47 || in.URL != s.URL+"/v1/intake/"+in.Token {
		t.Fatalf("%+v", in)
	}
	public := s.Client(t)
	send := func(body string) e2e.Answer {
		return public.Do("POST", "/v1/intake/"+in.Token, body, "Content-Type: text/plain; charset=utf-8")
	}
	sent := func(body string) e2e.IntakeAnswer { return e2e.Decode[e2e.IntakeAnswer](t, send(body).Ok(t).Body) }

	long := sent(alertText("BINANCE:BTCUSDT.P", "long"))
	if long.Asset != "BTC" || long.Direction != "long" || long.Strategy != "cross" {
		t.Fatalf("%+v", long)
	}
	if shown := ada.Get("/v1/signals/" + long.ID).Ok(t).Body; !strings.Contains(shown, `"parameters":{"order_id":"Long"}`) {
		t.Error(shown)
	}
	if again := sent(alertText("BINANCE:BTCUSDT.P", "long")); again.ID != long.ID {
		t.Errorf("the same alert again is %s, then %s", long.ID, again.ID)
	}
	if open := sent(alertText("BTCUSD", "long")); open.ID != "" || open.Reason != "already_open" {
		t.Errorf("%+v", open)
	}
	short := sent(alertText("BTCUSD", "short"))
	if short.Direction != "short" || short.ID == long.ID {
		t.Errorf("%+v", short)
	}
	await := func(id, reason string) {
		t.Helper()
		e2e.Eventually(t, "the signal is closed", func() bool {
			return strings.Contains(ada.Get("/v1/signals/"+id).Ok(t).Body, `"close_reason":"`+reason+`"`)
		})
	}
	await(long.ID, "agent_exit")
	// An action decides alone without a position, and opens another each time.
	second := sent("sell BTCUSD sl=1% strategy=cross note=1")
	flat := sent(alertText("BTCUSD", "flat"))
	if flat.Reason != "closed" || len(flat.Closed) != 2 || second.ID == short.ID ||
		!strings.Contains(fmt.Sprint(flat.Closed), second.ID) || !strings.Contains(fmt.Sprint(flat.Closed), short.ID) {
		t.Errorf("%+v", flat)
	}
	await(short.ID, "agent_exit")
	await(second.ID, "agent_exit")
	if flat := sent("flat BTCUSD"); flat.Reason != "nothing_open" || len(flat.Closed) != 0 {
		t.Errorf("%+v", flat)
	}
	// Another was accepted in between, so the same alert is a new decision.
	if third := sent("sell BTCUSD sl=1% strategy=cross note=1"); third.ID == second.ID || third.ID == "" {
		t.Errorf("%+v", third)
	}
	other := sent("long BTCUSD interval=7m strategy=reversal secret=s3cret")
	if shown := ada.Get("/v1/signals/" + other.ID).Ok(t).Body; !strings.Contains(shown, `"interval":"7m"`) ||
		strings.Contains(shown, "s3cret") || !strings.Contains(shown, `long on BTC 5m`) {
		t.Error(shown)
	}

	// What is not understood is refused with a sentence, and nothing is made.
	for body, want := range map[string]string{
		"buy BTCX":                                           "BTC",
		"Good morning everybody out there":                   "sentence",
		`{"asset":"BTC","action":"byu"}`:                     "buy",
		`{"asset":"BTC","action":"buy","asset":"E"}`:         "twice",
		`{"asset":"BTC","action":"buy","sl":"12,5"}`:         "comma",
		`{"asset":"BTC","action":"buy","sl":1e400}`:          "finite",
		`{"asset":"BTC","action":"buy","price":NaN}`:         "quotes",
		strings.Repeat("[", 8000):                            "JSON",
		`{"asset":"BTC","action":"buy","strategy":"crosss"}`: "cross",
		`{"asset":"BTC","action":"sell","sl":"1"}`:           "lies above",
		"": "empty",
	} {
		p := send(body).Fails(t, "invalid_request")
		if text := fmt.Sprintf("%+v", p); !strings.Contains(text, want) || p.Instance != "/v1/intake/{token}" {
			t.Errorf("%.40s: %s", body, text)
		}
	}
	send(strings.Repeat("x", 16<<10+1)).Fails(t, "body_too_large")
	send("long BTCUSD price=1").Fails(t, "price_moved")

	list := e2e.IntakeRequests(t, ada, "my_agent", in)
	if len(list) != 21 || list[0].Status != 409 || list[0].Error.Code != "price_moved" || list[0].Body != "long BTCUSD price=1" {
		t.Fatalf("%d: %+v", len(list), list[0])
	}
	first := list[len(list)-1]
	if first.Status != 200 || first.SignalID == nil || *first.SignalID != long.ID ||
		!strings.Contains(first.Understood, "open long BTCUSDT") {
		t.Errorf("%+v", first)
	}
	if text := fmt.Sprintf("%+v", list); strings.Contains(text, "s3cret") || strings.Contains(text, in.Token) {
		t.Error(text)
	}

	// A token that is not right, and the intakes of others.
	letter := "A"
	if in.Token[46] == 'A' {
		letter = "B"
	}
	wrong := public.Do("POST", "/v1/intake/"+in.Token[:46]+letter, "long BTCUSD")
	if p := wrong.Fails(t, "not_found"); p.Instance != "/v1/intake/{token}" {
		t.Errorf("%+v", p)
	}
	path := "/v1/agents/my_agent/intakes"
	for _, a := range []e2e.Answer{eve.Get(path), eve.Post(path, ""), eve.Get(path + "/" + in.ID + "/requests"),
		eve.Do("DELETE", path+"/"+in.ID, "")} {
		a.Fails(t, "not_found")
	}
	ada.Post("/v1/agents/trading/intakes", "").Fails(t, "built_in")
	ada.Post("/v1/agents", `{"id":"my_texts","name":"Texts","category":"content","strategies":["notes"]}`).Want(t, 201)
	ada.Post("/v1/agents/my_texts/intakes", "").Fails(t, "invalid_request")

	// A revoked intake, and those of an agent that is removed.
	for range 9 {
		e2e.AddIntake(t, ada, "my_agent")
	}
	ada.Post(path, "").Fails(t, "limit_reached")
	ada.Do("DELETE", path+"/"+in.ID, "").Want(t, 204)
	send("long BTCUSD").Fails(t, "not_found")
	last := e2e.AddIntake(t, ada, "my_agent")
	public.Post("/v1/intake/"+last.Token, `{"asset":"BTC","action":"buy"}`).Ok(t)
	if a := ada.Get(path).Ok(t).Body; !strings.Contains(a, `"total":10`) || strings.Contains(a, "ain_") ||
		strings.Contains(a, in.ID) {
		t.Error(a)
	}
	ada.Do("DELETE", "/v1/agents/my_agent", "").Want(t, 204)
	public.Post("/v1/intake/"+last.Token, "long BTCUSD").Fails(t, "not_found")
}
