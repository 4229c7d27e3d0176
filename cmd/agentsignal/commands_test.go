package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// operator runs commands with the same settings.
type operator struct {
	tb       testing.TB
	settings []string
}

// newOperator returns an operator of the Redis at url; of the one in the data
// directory if url is empty.
func newOperator(tb testing.TB, url, dataDir string) operator {
	tb.Helper()
	if url == "" {
		return operator{tb, []string{"--data-dir", dataDir}}
	}
	file := filepath.Join(tb.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("redis:\n  url: "+url+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return operator{tb, []string{"--config", file}}
}

// try runs a command; in is its standard input.
func (o operator) try(in string, args ...string) (string, error) {
	o.tb.Helper()
	out, _, err := runCommand(o.tb.Context(), strings.NewReader(in), append(o.settings, args...)...)
	return out, err
}

// do is try for a command that must succeed.
func (o operator) do(args ...string) string {
	o.tb.Helper()
	out, err := o.try("", args...)
	if err != nil {
		o.tb.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// fails is try for a command that must not succeed, with an error that has the part.
func (o operator) fails(part string, args ...string) {
	o.tb.Helper()
	out, err := o.try("", args...)
	if err == nil || !strings.Contains(err.Error(), part) {
		o.tb.Errorf("%s: wrote %q and ended with %v, want an error with %q", strings.Join(args, " "), out, err, part)
	}
}

func TestCommandsChangeAccountsAndKeys(t *testing.T) {
	t.Parallel()
	for where, address := range map[string]func(*testing.T) string{
		"of a Redis elsewhere":                        func(t *testing.T) string { return redistest.New(t).URL() },
		"of a Redis Cluster":                          func(t *testing.T) string { return redistest.NewCluster(t, 3).URL() },
		"of the Redis that the service brought along": func(*testing.T) string { return "" },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			url := address(t)
			c := testConfig(t, url)
			s := start(t, c)
			public := s.client(t)
			admin := newOperator(t, url, c.DataDir)

			made := decode[accountJSON](t, admin.do("account", "create", "--email", "Ada@example.com", "--password", password))
			if made.Email != "ada@example.com" || !strings.HasPrefix(string(made.AccountID), "acc_") {
				t.Errorf("created %+v", made)
			}
			admin.fails("exists", "account", "create", "--email", "ada@example.com", "--password", password)
			admin.fails("12 characters", "account", "create", "--email", "eve@example.com", "--password", "short")
			admin.fails("password", "account", "create", "--email", "eve@example.com")
			admin.fails("email", "account", "create", "--password", password)
			if all := decode[[]accountJSON](t, admin.do("account", "list")); len(all) != 1 || all[0] != made {
				t.Errorf("listed %+v", all)
			}

			// The running service knows of it.
			user := public.with(public.login("ada@example.com", password).Access)
			key := decode[keyJSON](t, admin.do("key", "create", "--email", "ada@example.com", "--name", "laptop", "--scopes", "signals:read,agents:read", "--expires-in", "3600"))
			if len(key.Scopes) != 2 || key.ExpiresAt == nil || key.APIKey == "" {
				t.Errorf("created %+v", key)
			}
			admin.fails("name", "key", "create", "--email", "ada@example.com", "--name", "laptop")
			admin.fails("scopes", "key", "create", "--email", "ada@example.com", "--name", "other", "--scopes", "everything")
			admin.fails("no account has the email", "key", "create", "--email", "eve@example.com", "--name", "laptop")
			reader := public.with(key.APIKey)
			reader.signals("")
			reader.post("/v1/agents/trading/run", runBody("BTC", "momentum")).fails(t, http.StatusForbidden, "insufficient_scope")
			listed := decode[[]keyJSON](t, admin.do("key", "list", "--email", "ada@example.com"))
			if len(listed) != 1 || listed[0].KeyID != key.KeyID || listed[0].APIKey != "" {
				t.Errorf("listed %+v", listed)
			}
			live := reader.dial()
			admin.fails("no key_id", "key", "revoke", "--email", "ada@example.com", "laptop")
			admin.do("key", "revoke", "--email", "ada@example.com", string(key.KeyID))
			if code := live.closing(); code != 4401 {
				t.Errorf("the stream of the revoked key is closed with %d", code)
			}
			eventually(t, "the key is refused", func() bool { return reader.get("/v1/signals").Status == http.StatusUnauthorized })

			// A new password, from standard input; a lock that is lifted.
			const next = "staple battery horse"
			if _, err := admin.try(next+"\n", "account", "set-password", "--email", "ada@example.com", "--password-stdin"); err != nil {
				t.Errorf("set password: %v", err)
			}
			eventually(t, "the session has ended", func() bool { return user.get("/v1/account").Status == http.StatusUnauthorized })
			for range c.Auth.LockAfter {
				public.post("/v1/auth/login", credentialsBody("ada@example.com", password)).fails(t, http.StatusUnauthorized, "invalid_credentials")
			}
			public.post("/v1/auth/login", credentialsBody("ada@example.com", next)).fails(t, http.StatusTooManyRequests, "account_locked")
			admin.do("account", "unlock", "--email", "ada@example.com")
			user = user.with(public.login("ada@example.com", next).Access)

			live = user.dial()
			admin.fails("--yes", "account", "delete", "--email", "ada@example.com")
			admin.do("account", "delete", "--email", "ada@example.com", "--yes")
			if code := live.closing(); code != 4403 {
				t.Errorf("the stream of the deleted account is closed with %d", code)
			}
			admin.fails("no account has the email", "account", "delete", "--email", "ada@example.com", "--yes")
			if out := admin.do("account", "list"); strings.TrimSpace(out) != "[]" {
				t.Errorf("listed %s", out)
			}

			// And whether or not the service runs.
			s.stop(t)
			admin.do("account", "create", "--email", "bob@example.com", "--password", password)
			again := start(t, c)
			again.client(t).login("bob@example.com", password)
		})
	}
}

func TestConfigCommandsTellWhatIsInForce(t *testing.T) {
	t.Parallel()
	write := func(text string) operator {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return operator{t, []string{"--config", file}}
	}
	good := write("partitions: 32\nredis:\n  url: redis://user:hush@example.com:6379\nauth:\n  jwt_keys: " + sharedKeys + "\nruns:\n  timeout: 10s\n")
	if out := good.do("config", "check"); !strings.Contains(out, "valid") {
		t.Errorf("config check says %q", out)
	}
	out := good.do("config", "print")
	for _, want := range []string{"partitions: 32\n", "timeout: 10s\n", "url: '***'\n", "jwt_keys: '***'\n", "reads: 3000/m\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("config print does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "hush") || strings.Contains(out, "MDEy") {
		t.Errorf("config print shows a secret:\n%s", out)
	}
	if _, err := write(strings.ReplaceAll(out, "'***'", "''")).try("", "config", "check"); err != nil {
		t.Errorf("what config print wrote is not valid: %v", err)
	}
	// All faults at once.
	bad := write("partitions: 65\nhttp:\n  addr: nowhere\nauth:\n  registration: maybe\n  jwt_keys: a:b\nredis:\n  url: http://x\n" +
		"market:\n  source: crystal ball\nrate_limit:\n  runs: many\n  reads: 1/y\nagents:\n  disabled: [oracle]\n  statuses: {poet: beta}\ncontent:\n  chat_url: ftp://x\n")
	_, err := bad.try("", "config", "check")
	for _, want := range []string{"partitions", "http.addr", "auth.registration", "auth.jwt_keys", "redis.url", "market.source", "rate_limit.runs",
		"rate_limit.reads", "agents.disabled", "agents.statuses", "content.chat_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("config check does not tell of %s: %v", want, err)
		}
	}
	bad.fails("partitions", "serve")
	write("partition: 5\n").fails("line 1", "config", "check")
	operator{t, []string{"--config", filepath.Join(t.TempDir(), "none.yaml")}}.fails("none.yaml", "config", "print")
}

func TestVersionIsPrinted(t *testing.T) {
	t.Parallel()
	if out := (operator{tb: t}).do("version"); !strings.HasPrefix(out, "agentsignal "+version+" (commit ") {
		t.Errorf("version says %q", out)
	}
	operator{tb: t}.fails(`no command "dance"`, "dance")
	operator{tb: t}.fails("no flag --dance", "version", "--dance")
}

func TestHealthcheckAsksTheService(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s := start(t, testConfig(t, redis.URL()))
	o := operator{tb: t}
	if out := o.do("healthcheck", "--url", s.url+"/readyz"); !strings.Contains(out, `"status":"ready"`) {
		t.Errorf("healthcheck says %q", out)
	}
	redis.Kill()
	eventually(t, "it is not ready", func() bool { return s.client(t).get("/readyz").Status == http.StatusServiceUnavailable })
	o.fails("not ready", "healthcheck", "--url", s.url+"/readyz")
	redis.Restart()
	s.awaitReady(t)
	s.stop(t)
	o.fails("nothing listens", "healthcheck", "--url", s.url+"/readyz")
}

func TestTailShowsTheStream(t *testing.T) {
	t.Parallel()
	s := shared(t)
	trader, _ := s.account(t)
	address := "ws" + strings.TrimPrefix(s.url, "http") + "/ws/dashboard"
	o := operator{tb: t}
	o.fails("give an API key", "tail", "--url", address)
	o.fails("refuses the key (401)", "tail", "--url", address, "--key", unknownKey())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outputs := map[string]*journal{"for people": {}, "for programs": {}}
	ended := make(chan error, len(outputs))
	for kind, out := range outputs {
		args := []string{"tail", "--url", address, "--key-file", written(t, trader.token), "--assets", "btc"}
		if kind == "for programs" {
			args = append(args, "--json")
		}
		root := newRoot(nil)
		root.SetArgs(args)
		root.SetOut(out)
		root.SetErr(out)
		go func() { ended <- root.ExecuteContext(ctx) }()
	}
	for kind, out := range outputs {
		eventually(t, "tail "+kind+" has subscribed", func() bool { return out.line("subscribed") != "" })
	}
	trader.run("ETH", "momentum")
	made := trader.run("BTC", "momentum")
	for kind, out := range outputs {
		eventually(t, "tail "+kind+" shows the signal", func() bool {
			return out.line(map[string]string{"for people": "new        BTC", "for programs": made.ID}[kind]) != ""
		})
		if line := out.line("ETH"); line != "" {
			t.Errorf("tail %s shows what was not asked for: %s", kind, line)
		}
		if kind == "for programs" {
			for line := range strings.Lines(out.String()) {
				if err := streamCheck(t).FromServer([]byte(line)); err != nil {
					t.Errorf("tail prints %s: %v", line, err)
				}
			}
		}
	}
	cancel()
	for range outputs {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("tail ended with: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("tail did not end")
		}
	}
}
