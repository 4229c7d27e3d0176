package operations

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestCommandsChangeAccountsAndKeys(t *testing.T) {
	t.Parallel()
	for where, address := range map[string]func(*testing.T) string{
		"of a Redis elsewhere": func(t *testing.T) string { return redistest.New(t).URL() },
		"of a Redis Cluster": func(t *testing.T) string {
			return redistest.NewCluster(t, 3).URL()
		},
		"of the Redis that the service starts": func(*testing.T) string { return "" },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			url := address(t)
			c := e2e.TestConfig(t, url)
			s := e2e.Start(t, c)
			public := s.Client(t)
			admin := e2e.StoreOperator(t, url, c.DataDir)

			made := e2e.Decode[e2e.AccountJSON](t, admin.Do("account", "create", "--email", "Ada@example.com",
				"--password", e2e.Password))
			if made.Email != "ada@example.com" || !strings.HasPrefix(string(made.AccountID), "acc_") {
				t.Errorf("created %+v", made)
			}
			admin.Fails("exists: agentsignal account set-password --email ada@example.com sets its password, and agentsignal "+
				"key create --email ada@example.com --name NAME makes a key",
				"account", "create", "--email", "ada@example.com", "--password", e2e.Password)
			admin.Fails("12 characters", "account", "create", "--email", "eve@example.com", "--password", "short")
			admin.Fails("password", "account", "create", "--email", "eve@example.com")
			admin.Fails("email", "account", "create", "--password", e2e.Password)
			if all := e2e.Decode[[]e2e.AccountJSON](t, admin.Do("account", "list")); len(all) != 1 || all[0] != made {
				t.Errorf("listed %+v", all)
			}

			// The running service sees the change.
			user := public.With(public.Login("ada@example.com", e2e.Password).Access)
			key := e2e.Decode[e2e.KeyJSON](t, admin.Do("key", "create", "--email", "ada@example.com", "--name",
				"laptop", "--scopes", "signals:read,agents:read", "--expires-in", "3600"))
			if len(key.Scopes) != 2 || key.ExpiresAt == nil || key.APIKey == "" {
				t.Errorf("created %+v", key)
			}
			admin.Fails("name", "key", "create", "--email", "ada@example.com", "--name", "laptop")
			admin.Fails("scopes", "key", "create", "--email", "ada@example.com", "--name", "other",
				"--scopes", "everything")
			admin.Fails("no account has the email", "key", "create", "--email", "eve@example.com", "--name", "laptop")
			reader := public.With(key.APIKey)
			reader.Signals("")
			reader.TryRun("BTC", "momentum").Fails(t, "insufficient_scope")
			listed := e2e.Decode[[]e2e.KeyJSON](t, admin.Do("key", "list", "--email", "ada@example.com"))
			if len(listed) != 1 || listed[0].KeyID != key.KeyID || listed[0].APIKey != "" {
				t.Errorf("listed %+v", listed)
			}
			user.Post("/v1/auth/api-key", `{"name":"of BTC","view":{"assets":["BTC"]}}`).Want(t, http.StatusCreated)
			out := admin.Do("key", "list", "--email", "ada@example.com", "--readers")
			viewed := e2e.Decode[[]e2e.KeyJSON](t, out)
			if len(viewed) != 1 || !strings.Contains(out, `"BTC"`) || !strings.Contains(out, `"max_connections": 5`) {
				t.Errorf("readers: %s", out)
			}
			live := reader.Dial()
			admin.Do("key", "revoke", "--email", "ada@example.com", viewed[0].KeyID)
			admin.Fails("not a key_id", "key", "revoke", "--email", "ada@example.com", "laptop")
			admin.Do("key", "revoke", "--email", "ada@example.com", key.KeyID)
			live.Closes(4401)
			reader.Await("/v1/signals", http.StatusUnauthorized)

			// A new password, from standard input; a lock that is lifted.
			const next = "staple battery horse"
			if _, err := admin.Try(next+"\n", "account", "set-password", "--email", "ada@example.com",
				"--password-stdin"); err != nil {
				t.Errorf("set password: %v", err)
			}
			user.Await("/v1/account", http.StatusUnauthorized)
			for range c.Auth.LockAfter {
				public.TryLogin("ada@example.com", e2e.Password).Fails(t, "invalid_credentials")
			}
			public.TryLogin("ada@example.com", next).Fails(t, "account_locked")
			admin.Do("account", "unlock", "--email", "ada@example.com")
			user = user.With(public.Login("ada@example.com", next).Access)

			live = user.Dial()
			admin.Fails("--yes", "account", "delete", "--email", "ada@example.com")
			admin.Do("account", "delete", "--email", "ada@example.com", "--yes")
			live.Closes(4403)
			admin.Fails("no account has the email", "account", "delete", "--email", "ada@example.com", "--yes")
			if out := admin.Do("account", "list"); strings.TrimSpace(out) != "[]" {
				t.Errorf("listed %s", out)
			}

			// The commands also work without a running service.
			s.Stop(t)
			admin.Do("account", "create", "--email", "bob@example.com", "--password", e2e.Password)
			again := e2e.Start(t, c)
			again.Client(t).Login("bob@example.com", e2e.Password)
		})
	}
}

// TestCommandsNameTheirDataDirectory on standard error, and say when it is a new one.
func TestCommandsNameTheirDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	here, err := os.Getwd()
	e2e.Must(t, err)
	relative, err := filepath.Rel(here, dir)
	e2e.Must(t, err)
	for _, c := range []struct{ want, args string }{
		{"the data directory " + dir + " is new and empty: if the service has another one, give that by --data-dir",
			"account create --email ada@example.com --password-file " + e2e.Written(t, e2e.Password)},
		{"uses the data directory " + dir + "\n", "account list"},
	} {
		var out, errs e2e.Journal
		e2e.Must(t, e2e.RunCommand(t.Context(), t, nil, &out, &errs, append(strings.Fields(c.args), "--data-dir", relative)...))
		if !strings.Contains(errs.String(), "agentsignal: "+c.want) || !strings.Contains(out.String(), "ada@example.com") {
			t.Errorf("%s writes %q and %q, want %q", c.args, errs.String(), out.String(), c.want)
		}
	}
}

func TestHealthcheckAsksTheService(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	o := e2e.Operator(t)
	e2e.Eventually(t, "healthcheck prints that it is ready", func() bool {
		out, err := o.Try("", "healthcheck", "--url", s.URL+"/readyz")
		return err == nil && strings.Contains(out, `"status":"ready"`)
	})
	redis.Kill()
	s.Client(t).Await("/readyz", http.StatusServiceUnavailable)
	o.Fails("not ready", "healthcheck", "--url", s.URL+"/readyz")
	redis.Restart()
	s.AwaitReady(t)
	s.Stop(t)
	o.Fails("nothing listens", "healthcheck", "--url", s.URL+"/readyz")
}

func TestTailShowsTheStream(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	trader, _ := s.Account(t)
	address := "ws" + strings.TrimPrefix(s.URL, "http") + "/ws/dashboard"
	o := e2e.Operator(t)
	o.Fails("give an API key", "tail", "--url", address)
	o.Fails("refuses the key (401)", "tail", "--url", address, "--key", e2e.UnknownKey())
	o.Fails("its checksum does not fit, so it has a typing error or is not whole: the key is from --key: copy it again",
		"tail", "--url", address, "--key", trader.Token[:len(trader.Token)-1])

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outputs := map[string]*e2e.Journal{"for people": {}, "for programs": {}}
	ended := make(chan error, len(outputs))
	for kind, out := range outputs {
		args := []string{"tail", "--url", address, "--key-file", e2e.Written(t, trader.Token), "--assets", "btc"}
		if kind == "for programs" {
			args = append(args, "--json")
		}
		e2e.Program(t) // builds it here: a goroutine may not end the test
		go func() { ended <- e2e.RunCommand(ctx, t, nil, out, out, args...) }()
	}
	for kind, out := range outputs {
		e2e.Eventually(t, "tail "+kind+" has subscribed", func() bool { return out.Line("subscribed") != "" })
	}
	other := trader.Run("ETH", "momentum")
	made := trader.Run("BTC", "momentum")
	for kind, out := range outputs {
		want, unwanted := "new      BTC", "new      ETH"
		if kind == "for programs" {
			want, unwanted = made.ID, other.ID
		}
		e2e.Eventually(t, "tail "+kind+" shows the signal", func() bool { return out.Line(want) != "" })
		if line := out.Line(unwanted); line != "" {
			t.Errorf("tail %s shows what was not asked for: %s", kind, line)
		}
		if kind == "for programs" {
			for line := range strings.Lines(out.String()) {
				if err := e2e.StreamCheck(t).FromServer([]byte(line)); err != nil {
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
		case <-time.After(e2e.WaitLimit):
			t.Fatal("tail did not end")
		}
	}
}
