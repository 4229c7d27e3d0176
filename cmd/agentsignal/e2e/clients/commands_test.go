package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestCommandsUseTheAPI signs in and uses each client command, as a user does.
func TestCommandsUseTheAPI(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, account := s.Account(t)
	config := os.Getenv("XDG_CONFIG_HOME")
	name := string(account.ID)
	o := e2e.ClientCommands(t)
	again := []string{"login", "--email", account.Email, "--profile", name, "--password-stdin"} // where the profile is of
	logIn := append(again, "--url", s.URL)
	if _, err := o.Try("not the password\n", logIn...); err == nil || !strings.Contains(err.Error(), "refuses the login (401)") {
		t.Errorf("a wrong password: %v", err)
	}
	var keys []string
	for _, line := range [][]string{logIn, again} {
		if _, err := o.Try(e2e.Password+"\n", line...); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(config, "agentsignal", "profiles", name+".json")
		text, err := os.ReadFile(path)
		e2e.Must(t, err)
		info, err := os.Stat(path)
		e2e.Must(t, err)
		if info.Mode().Perm() != 0o600 || strings.Contains(string(text), e2e.Password) {
			t.Errorf("the profile is %v %s", info.Mode(), text)
		}
		keys = append(keys, e2e.Decode[e2e.KeyJSON](t, string(text)).APIKey)
		if len(keys) == 1 {
			e2e.Must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "former.json"), text, 0o600))
		}
	}
	trader.With(keys[0]).Get("/v1/account").Fails(t, "invalid_token") // replaced
	trader.With(keys[1]).Get("/v1/account").Ok(t)
	for _, command := range []string{"jobs", "tail"} {
		o.Fails(" The key is that of the profile former: agentsignal login --profile former makes a new one",
			command, "--profile", "former")
	}
	do := func(want string, args ...string) string {
		t.Helper()
		out := o.Do(append(args, "--profile", name)...)
		if !strings.Contains(out, want) {
			t.Errorf("%s prints %s, want %q", strings.Join(args, " "), out, want)
		}
		return out
	}

	made := e2e.Decode[struct {
		ID string `json:"signal_id"`
	}](t, do("sig_", "run", "trading", "--asset", "BTC", "--strategy", "momentum", "-o", "json")).ID
	do(made, "signals", "--asset", "btc", "--agent", "trading", "--strategy", "momentum", "--status", "open", "--min-confidence",
		"0.01", "--since", "1h")
	do("There are no such signals.", "signals", "--asset", "ETH")
	do("\nBTC    crypto", "assets")
	do("\nBTC,crypto,stream,", "assets", "-o", "csv")
	do("\noil\n", "assets", "--jq", ".[].asset")
	for _, args := range [][]string{
		{"signals", "--asset", "BTCC"},
		{"score", "--asset", "BTCC"},
		{"export", "--asset", "BTCC"},
		{"tail", "--assets", "BTCC"},
	} {
		o.Fails("did you mean BTC? agentsignal assets lists all", append(args, "--profile", name)...)
	}
	if out := do("", "signals", "--since", "2030-01-01", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("no signals are %s", out)
	}
	do(made, "signals", "--jq", ".[0].signal_id")
	do("created ", "signal", "show", made)
	do("signal_id", "signal", "show", made, "-o", "csv")
	do(made+",", "export", "--status", "open")
	file := filepath.Join(t.TempDir(), "signals.jsonl")
	do("", "export", "-o", "json", "--file", file)
	text, err := os.ReadFile(file)
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), made) {
		t.Errorf("the export is %s, %v", text, err)
	}
	o.Fails("file exists", "export", "--file", file, "--profile", name)
	do("expected r net", "scan", "trading", "--asset", "BTC,ETH", "--strategy", "momentum")
	do("scan", "jobs")
	job := e2e.Decode[struct {
		ID string `json:"job_id"`
	}](t, do("job_", "run", "trading", "--asset", "BTC", "--strategy", "momentum", "--async", "-o", "json")).ID
	do(job, "jobs", job)
	trader.Post("/v1/schedules", `{"agent_id":"trading","assets":["BTC"],"strategy":"breakout","every":"60m"}`).Ok(t)
	do("breakout", "schedules")
	do("expectancy_r", "score", "--agent", "trading", "-o", "csv")
	hook := e2e.Decode[struct {
		ID string `json:"webhook_id"`
	}](t, trader.Post("/v1/webhooks",
		`{"url":"https://webhook.invalid/x","events":["signal.closed"]}`).Ok(t).Body).ID
	do(hook, "webhook", "list")
	do("There are no failed deliveries.", "webhook", "failed", hook)
	do("0", "webhook", "retry", hook)

	o.Fails("no such delivery", "webhook", "retry", hook, "dlv_01M7YQ1WTVKN9DZNWV9NV456V1", "--profile", name)
	o.Fails("no such signal", "signal", "show", "sig_01M7YQ1WTVKN9DZNWV9NV456V1", "--profile", name)
	o.Fails("/strategy: must be one of", "run", "trading", "--asset", "BTC", "--strategy", "mometum", "--profile", name)
	o.Fails("not of the form name=value", "run", "seo", "--asset", "desk", "--strategy", "blog_post", "--param", "x",
		"--profile", name)
	reader, _ := s.Account(t, "signals:read")
	o.Fails("use a key with the scope agents:run", "jobs", "--url", s.URL, "--key-file", e2e.Written(t, reader.Token))
}
