package clients

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent/asked"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/actors/webhook/signature"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// agentExamples are the agents to copy.
var agentExamples = map[string]string{"go": "go/main.go", "python": "python/agent.py"}

// maxExampleLines is the number of lines that an example stays below.
var maxExampleLines = map[string]int{"go": 80, "python": 60}

// closing returns prices of an asset whose bars close at the given prices.
func closing(closes ...float64) *market.Snapshot {
	s := &market.Snapshot{Last: marketdata.Tick{Price: closes[len(closes)-1]}}
	for i, c := range closes {
		s.Bars = append(s.Bars, marketdata.Bar{OpenTime: int64(i) * 3_600_000, Open: c, High: c, Low: c, Close: c, Volume: 1})
	}
	return s
}

// flatThen returns 299 equal closes and another.
func flatThen(last float64) *market.Snapshot {
	return closing(append(slices.Repeat([]float64{100}, 299), last)...)
}

// TestExampleAgents asks the agents to copy with bars that decide their answers, and then by a service.
func TestExampleAgents(t *testing.T) {
	t.Parallel()
	c := e2e.HookConfig(t, "")
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 60, "open"
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.M1)
	for name, file := range agentExamples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "../../../../deploy/clients/" + file
			text, err := os.ReadFile(path)
			e2e.Must(t, err)
			if n := bytes.Count(text, []byte("\n")); n >= maxExampleLines[name] {
				t.Errorf("it has %d lines", n)
			}
			secret := delivery.NewSecret()
			args := append([]string{"env", "AGENT_SECRET=" + secret}, examples[name].start(t, path)...)
			x := startExample(t, args)
			tryAgent(t, x, secret)
			runAgent(t, s, x, secret)
		})
	}
}

// crossing are assets of which the averages of one or another cross at almost every bar.
var crossing = []string{"BTC", "ETH", "SOL", "AAPL", "MSFT", "NVDA", "EURUSD", "GBPUSD", "XAUUSD", "oil"}

// runAgent registers an example with a service, which runs it at once, by a job, in a scan and by a schedule.
func runAgent(t *testing.T, s *e2e.Service, x *exampleReceiver, secret string) {
	person, _, email := s.User(t)
	person.Post("/v1/agents", fmt.Sprintf(`{"id":"crosses","name":"Crosses","category":"trading","strategies":["averages"],
		"defaults":{"timeframe":"1m"},"endpoint":{"url":"%s/ask","secret":%q}}`, x.url, secret)).Want(t, http.StatusCreated)
	made := map[string]bool{}
	e2e.Eventually(t, "it has signals, and none without a cross", func() bool {
		for _, asset := range crossing {
			a := person.Post("/v1/agents/crosses/run", e2e.RunBody(asset, "averages"))
			if a.Status == http.StatusConflict {
				if p := a.Fails(t, "no_signal"); !strings.Contains(p.Detail, "the averages have not crossed") {
					t.Errorf("without a signal it is answered %s", a.Body)
				}
				made["none"] = true
				continue
			}
			if a.Status == http.StatusInternalServerError { // two ATR of a quiet market are too near for a stop
				if p := a.Fails(t, "agent_failed"); !strings.Contains(p.Detail, "the agent's reply does not fit the market") {
					t.Error(a.Body)
				}
				continue
			}
			if !strings.Contains(a.Ok(t).Body, `"indicators":["sma_10","sma_30"]`) {
				t.Error(a.Body)
			}
			made["signal"] = true
		}
		return len(made) == 2
	})
	var quiet e2e.WireJob
	e2e.Eventually(t, "a job ends without a signal", func() bool {
		a := person.Post("/v1/agents/crosses/run", e2e.RunBody("BTC", "averages", `"async":true`)).Ok(t)
		quiet = person.AwaitJob(e2e.Decode[e2e.WireJob](t, a.Body).ID)
		if quiet.Status != "completed" {
			t.Fatalf("it ends as %+v", quiet)
		}
		return quiet.Signal == nil
	})
	o, profile := e2e.ClientCommands(t), "crosses-"+x.url[strings.LastIndex(x.url, ":")+1:]
	_, err := o.Try(e2e.Password+"\n", "login", "--email", email, "--profile", profile, "--password-stdin", "--url", s.URL)
	e2e.Must(t, err)
	if out := o.Do("jobs", quiet.ID, "--profile", profile); !strings.Contains(out, "the averages have not crossed") {
		t.Errorf("the job is printed as\n%s", out)
	}
	a := person.Post("/v1/agents/crosses/scan", `{"assets":["BTC","ETH"],"strategy":"averages"}`).Ok(t)
	scan := person.AwaitJob(e2e.Decode[e2e.WireJob](t, a.Body).ID)
	if a := person.Get("/v1/jobs/" + scan.ID).Ok(t); !strings.Contains(a.Body, `"errors":[]`) {
		t.Error(a.Body)
	}
	round := person.AddSchedule(`{"agent_id":"crosses","assets":["BTC","ETH"],"strategy":"averages","every":"1440m",` +
		`"max_open":9}`)
	if got := person.AfterRound(round.ID); got.Failures != 0 || got.LastError != nil {
		t.Errorf("after a round: %+v", got)
	}
}

func tryAgent(t *testing.T, x *exampleReceiver, secret string) {
	client := sender.New(sender.Options{Guard: guard.New(guard.Options{
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	t.Cleanup(client.Close)
	sys := engine.NewSystem(engine.Options{})
	t.Cleanup(func() { e2e.Must(t, sys.Shutdown(context.Background())) })
	a := asked.New(sys, asked.Options{Sender: webhook.New(nil, client, nil, webhook.Options{}), Read: readSubmission})
	ask := func(secret string, seen *market.Snapshot) (*signal.Submission, string, error) {
		agent := &signal.Agent{ID: "cross", Account: "acc_1", Endpoint: &signal.Endpoint{URL: x.url + "/ask", Secret: secret}}
		q := &signal.RunRequest{Account: "acc_1", Agent: "cross", Asset: "BTC", Strategy: "averages", Timeframe: signal.H1,
			Risk: signal.MediumRisk, Own: agent}
		return a.Ask(t.Context(), signal.NewRunID(), q, seen)
	}
	for _, c := range []struct {
		seen *market.Snapshot
		want signal.Direction // empty for none
	}{
		{flatThen(110), signal.Long},
		{flatThen(90), ""},
		{closing(append(prices(flatThen(110)), 10)...), signal.Short},
		{closing(append(prices(flatThen(110)), 111)...), ""},
		{closing(1, 2, 3), ""},
	} {
		s, reason, err := ask(secret, c.seen)
		switch {
		case err != nil:
			t.Errorf("a question ends with %v", err)
		case c.want == "" && (s != nil || reason == ""):
			t.Errorf("without a cross it answers %+v, %q", s, reason)
		case c.want != "" && (s == nil || s.Direction != c.want):
			t.Errorf("it answers %+v, %q, want %s", s, reason, c.want)
		}
	}
	if _, _, err := ask(delivery.NewSecret(), flatThen(110)); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("a question signed by another secret ends with %v", err)
	}
	tryForgedQuestions(t, x, secret)
}

// prices returns the closes of s.
func prices(s *market.Snapshot) (closes []float64) {
	for i := range s.Bars {
		closes = append(closes, s.Bars[i].Close)
	}
	return closes
}

// tryForgedQuestions sends an agent what it must refuse.
func tryForgedQuestions(t *testing.T, x *exampleReceiver, secret string) {
	const body = `{"bars":[]}`
	unix := func(in time.Duration) string { return strconv.FormatInt(time.Now().Add(in).Unix(), 10) }
	for name, c := range map[string]struct {
		age    time.Duration // since the question was sent
		header string        // changed after signing
		value  string
		body   string // of which body is signed
		want   int
	}{
		"genuine":            {age: 4 * time.Minute, want: 200},
		"old":                {age: 5*time.Minute + 30*time.Second, want: 401},
		"of the future":      {age: -5*time.Minute - 30*time.Second, want: 401},
		"another id":         {header: signature.HeaderStandardID, value: "run_2", want: 401},
		"another time":       {header: signature.HeaderStandardTimestamp, value: unix(9 * time.Second), want: 401},
		"no time":            {header: signature.HeaderStandardTimestamp, value: "now", want: 401},
		"no signature":       {header: signature.HeaderStandardSignature, value: "", want: 401},
		"another signature":  {header: signature.HeaderStandardSignature, value: "v1,AAAA", want: 401},
		"half of two":        {header: signature.HeaderStandardSignature, value: "v1,AAAA v1", want: 401},
		"another body":       {body: `{"bars": []}`, want: 401},
		"an old one, resent": {age: time.Hour, header: signature.HeaderStandardTimestamp, value: unix(0), want: 401},
	} {
		h := signedHeader([]string{secret}, "run_1", body, time.Now().Add(-c.age))
		if c.header != "" {
			h.Set(c.header, c.value)
		}
		if got := x.send(h, strings.NewReader(cmp.Or(c.body, body))); got != c.want {
			t.Errorf("a question that is %s is answered with %d, want %d", name, got, c.want)
		}
	}
}

// readSubmission reads the members that the examples may use, and refuses others.
func readSubmission(body []byte, _ *signal.RunRequest) (*signal.Submission, error) {
	var m struct {
		Direction  signal.Direction
		Stop       struct{ ATR float64 }
		Target     struct{ R float64 }
		Indicators []string
		Reasoning  string
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	if m.Direction != signal.Long && m.Direction != signal.Short || m.Stop.ATR <= 0 || m.Target.R <= 0 || len(m.Indicators) == 0 {
		return nil, errors.New("a member is missing")
	}
	return &signal.Submission{Direction: m.Direction, Stop: signal.Level{Unit: signal.ATRLevel, Value: m.Stop.ATR},
		Target: signal.Level{Unit: signal.RLevel, Value: m.Target.R}, Indicators: m.Indicators, Reasoning: m.Reasoning}, nil
}
