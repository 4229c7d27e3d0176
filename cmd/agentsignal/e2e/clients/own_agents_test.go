package clients

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	api "github.com/agentsignal/agentsignal/http/client"
)

// TestAgentsOfYourOwn: each client registers agents, submits their signals and closes them.
func TestAgentsOfYourOwn(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, "")
	c.Market.Source, c.Market.Speed, c.Auth.Registration = "simulated", 1, "open"
	s := e2e.Start(t, c)
	s.AwaitPrices(t, "BTC", signal.H1)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *e2e.Service)
	}{{"Go", ownAgentsInGo}, {"Python", ownAgentsInPython}, {"commands", ownAgentsByCommands},
		{"tools", ownAgentsByTools}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, s)
		})
	}
}

func ownAgentsInGo(t *testing.T, s *e2e.Service) {
	person, _, _ := s.User(t)
	ctx := t.Context()
	address, err := api.ParseAddress(s.URL)
	e2e.Must(t, err)
	user := &api.Client{Address: address, Key: person.Token, HTTP: person.HTTP}
	program := user.With(person.Key("program", `["agents:read","agents:run","signals:read"]`).Secret)

	in := api.NewAgent{ID: "my_agent", Category: "trading", AgentChange: api.AgentChange{Name: "Mine",
		Strategies: []string{"cross"}, Defaults: &api.AgentDefaults{Stop: api.Level{"percent": 2}, ExpiresIn: 3600}}}
	made, err := user.CreateAgent(ctx, in)
	e2e.Must(t, err)
	if made.Owner != "account" || made.CreatedAt.IsZero() || !cmp.Equal(made.Defaults, *in.Defaults) {
		t.Errorf("it is %+v", made)
	}
	_, err = program.CreateAgent(ctx, in)
	fails(t, err, 401, "jwt_required")
	_, err = user.CreateAgent(ctx, in)
	fails(t, err, 409, "name_taken")
	changed, err := user.UpdateAgent(ctx, "my_agent", api.AgentChange{Name: "Yours", Strategies: []string{"reversal"}})
	e2e.Must(t, err)
	read, err := program.Agent(ctx, "my_agent")
	e2e.Must(t, err)
	if want := []string{"cross", "reversal"}; !cmp.Equal(read.Strategies, want) || read.Name != "Yours" ||
		!cmp.Equal(read, changed) {
		t.Errorf("changed, it is %+v, and read %+v", changed, read)
	}
	asked, err := user.UpdateAgent(ctx, "my_agent",
		api.AgentChange{Endpoint: &api.AgentEndpoint{URL: "https://agent.example.com/ask"}})
	e2e.Must(t, err)
	if asked.Endpoint == nil || asked.Endpoint.URL != "https://agent.example.com/ask" ||
		!strings.HasPrefix(asked.Endpoint.Secret, "whsec_") {
		t.Errorf("with an endpoint, it is %s", asked.JSON)
	}
	all, err := program.Agents(ctx)
	e2e.Must(t, err)
	if len(all) != len(signal.Agents())+1 || all[len(all)-1].ID != "my_agent" {
		t.Errorf("the agents are %+v", all)
	}

	claim := 0.7
	submission := api.Submission{Asset: "BTC", Strategy: "cross", Direction: "long", Target: api.Level{"r": 2},
		Confidence: &claim, Reference: "a", Parameters: map[string]any{"fast": 9}}
	first, err := program.Submit(ctx, "my_agent", submission)
	e2e.Must(t, err)
	second, err := program.Submit(ctx, "my_agent", submission)
	e2e.Must(t, err)
	if first.ID != second.ID || first.Entry == nil || *first.Stop >= *first.Entry || first.Confidence >= claim {
		t.Errorf("it submits %s and %s", first.JSON, second.JSON)
	}
	submission.Direction = "short"
	_, err = program.Submit(ctx, "my_agent", submission)
	fails(t, err, 409, "reference_used")
	closed, err := program.CloseSignal(ctx, first.ID)
	e2e.Must(t, err)
	if closed.ID != first.ID || closed.ExitRequestedAt == nil {
		t.Errorf("it closes %s", closed.JSON)
	}
	e2e.Must(t, user.RemoveAgent(ctx, "my_agent"))
	_, err = program.Agent(ctx, "my_agent")
	fails(t, err, 404, "not_found")
}

func ownAgentsInPython(t *testing.T, s *e2e.Service) {
	person, _, _ := s.User(t)
	key := person.Key("program", `["agents:read","agents:run","signals:read"]`).Secret
	out, err := exec.Command(interpreter(t, "python3"), "-B", "testdata/python/own_agents.py", clientsPath, s.URL,
		person.Token, key).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if list := person.Signals("agent_id=my_python"); list.Total != 1 || !strings.Contains(string(out), list.Signals[0].ID) {
		t.Errorf("the list has %+v, want %s", list, out)
	}
}

func ownAgentsByCommands(t *testing.T, s *e2e.Service) {
	_, _, email := s.User(t)
	o := e2e.ClientCommands(t)
	const profile = "own-agents"
	_, err := o.Try(e2e.Password+"\n", "login", "--email", email, "--profile", profile, "--password-stdin", "--url", s.URL)
	e2e.Must(t, err)
	signedIn := func(args ...string) (string, error) {
		t.Helper()
		return o.Try(e2e.Password+"\n", append(args, "--profile", profile, "--password-stdin")...)
	}
	do := func(args ...string) string {
		t.Helper()
		return o.Do(append(args, "--profile", profile)...)
	}
	create := func(id, category string, more ...string) []string {
		return append([]string{"agent", "create", id, "--name", "My " + id, "--category", category}, more...)
	}

	out, err := signedIn(create("my_agent", "trading", "--strategy", "cross", "--strategy", "reversal", "--description", "Mine.",
		"--stop", "1.5%", "--target", "2R", "--timeframe", "1h", "--risk", "low", "--expires-in", "3600", "-o", "json")...)
	e2e.Must(t, err)
	var made map[string]any
	e2e.Must(t, json.Unmarshal([]byte(out), &made))
	want := map[string]any{"stop": map[string]any{"percent": 1.5}, "target": map[string]any{"r": 2.0}, "timeframe": "1h",
		"risk_level": "low", "expires_in": 3600.0}
	if diff := cmp.Diff(want, made["defaults"]); diff != "" || made["description"] != "Mine." {
		t.Errorf("%v\n%s", made, diff)
	}
	out, err = signedIn(create("my_program", "trading", "--strategy", "cross", "--endpoint", "https://agent.example.com/ask")...)
	if err != nil || !strings.Contains(out, "is shown this once, is whsec_") {
		t.Errorf("%s, %v", out, err)
	}
	out, err = signedIn(create("my_texts", "content", "--strategy", "notes")...)
	if err != nil || !strings.Contains(out, "my_texts  account  content   active  notes       My my_texts\n") {
		t.Errorf("%s, %v", out, err)
	}
	out = do("agent", "list")
	for _, want := range []string{"trading service trading active momentum,mean_reversion,",
		"my_agent account trading active cross,reversal"} {
		if line := strings.Join(strings.Fields(out), " "); !strings.Contains(line, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}

	id := strings.TrimSpace(do("submit", "my_agent", "btc", "long", "--strategy", "cross", "--stop", "2%", "--target", "3atr",
		"--confidence", "0.7", "--reference", "a-1", "--reasoning", "It crosses.", "--param", "fast=9", "--indicator", "sma",
		"--jq", ".signal_id"))
	again := do("submit", "my_agent", "btc", "long", "--strategy", "cross", "--reference", "a-1")
	if !strings.Contains(again, id) {
		t.Errorf("the same reference makes %s, want %s", again, id)
	}
	if shown := do("signal", "show", id, "-o", "json"); !strings.Contains(shown, `"claimed_confidence": 0.7`) ||
		!strings.Contains(shown, `"It crosses."`) {
		t.Errorf("the signal is %s", shown)
	}
	if out := do("close", id); !strings.Contains(out, id) ||
		!strings.Contains(out, "agent_exit") && !strings.Contains(out, "It closes at the next price") {
		t.Errorf("closed, it is\n%s", out)
	}
	if out := do("submit", "my_texts", "standing desk", "--strategy", "notes", "--content", "It stands."); !strings.Contains(
		out, "\nIt stands.\n") {
		t.Errorf("the text is\n%s", out)
	}
	out, err = o.Try("It\nstands.\n", "submit", "my_texts", "standing desk", "--strategy", "notes", "--content", "-", "-o",
		"json", "--profile", profile)
	if err != nil || !strings.Contains(out, `"content": "It\nstands.\n"`) {
		t.Errorf("the text of standard input is %s, %v", out, err)
	}

	failing := append([]string{"--profile", profile}, "submit", "my_agent", "BTC")
	o.Fails(`--stop "2R" must be a price such as 95.5, or a distance such as 1.5% or 2atr`,
		append(failing, "long", "--strategy", "cross", "--stop", "2R")...)
	o.Fails("/direction: direction is required and must be one of: long, short", append(failing, "--strategy", "cross")...)
	o.Fails("/strategy: must be one of: cross, reversal", append(failing, "long", "--strategy", "croos")...)
	built := strings.TrimSpace(do("run", "trading", "--asset", "BTC", "--strategy", "momentum", "--jq", ".signal_id"))
	o.Fails("the signal is of an agent of the service", "close", built, "--profile", profile)
	if _, err := signedIn("agent", "remove", "trading"); err == nil || !strings.Contains(err.Error(), "belongs to the service") {
		t.Errorf("an agent of the service is removed: %v", err)
	}
	if _, err := signedIn("agent", "remove", "my_agent"); err != nil || strings.Contains(do("agent", "list"), "my_agent") {
		t.Errorf("removed, it is listed, %v", err)
	}
	if _, err := o.Try("not the password\n", "agent", "remove", "my_texts", "--profile", profile,
		"--password-stdin"); err == nil || !strings.Contains(err.Error(), "refuses the login (401)") {
		t.Errorf("a wrong password: %v", err)
	}
}

func ownAgentsByTools(t *testing.T, s *e2e.Service) {
	person, _, _ := s.User(t)
	if a := person.Post("/v1/agents",
		`{"id":"my_model","name":"A model","category":"trading","strategies":["cross"]}`); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	tools := newToolUser(person.With(person.Key("model", `["agents:read","agents:run","signals:read"]`).Secret))
	submit := map[string]any{"agent_id": "my_model", "asset": "BTC", "strategy": "cross", "direction": "long",
		"stop": map[string]any{"percent": 2}, "target": map[string]any{"r": 2}, "confidence": 0.8, "reasoning": "It crosses.",
		"idempotency_key": "once"}
	first, text := tools.call("submit_signal", submit)
	again, _ := tools.call("submit_signal", submit)
	made := first["signal"].(map[string]any)
	if made["signal_id"] != again["signal"].(map[string]any)["signal_id"] || again["replayed"] != true ||
		made["reasoning"] != "It crosses." || !strings.Contains(text, "SIMULATED") {
		t.Errorf("it submits %v, %v: %s", first, again, text)
	}
	closed, _ := tools.call("close_signal", map[string]any{"signal_id": made["signal_id"]})
	if got := closed["signal"].(map[string]any); got["signal_id"] != made["signal_id"] {
		t.Errorf("it closes %v", got)
	}
	list, text := tools.call("list_agents", nil)
	all := list["agents"].([]any)
	if last := all[len(all)-1].(map[string]any); last["id"] != "my_model" || last["owner"] != "account" ||
		!strings.Contains(text, "my_model (trading, active, of the account)") {
		t.Errorf("the agents are %v: %s", list, text)
	}
}
