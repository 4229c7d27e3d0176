package service

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
			c := testConfig(t, url)
			s := start(t, c)
			public := s.client(t)
			admin := storeOperator(t, url, c.DataDir)

			made := decode[accountJSON](t, admin.Do("account", "create", "--email", "Ada@example.com",
				"--password", password))
			if made.Email != "ada@example.com" || !strings.HasPrefix(string(made.AccountID), "acc_") {
				t.Errorf("created %+v", made)
			}
			admin.Fails("exists: agentsignal account set-password --email ada@example.com sets its password, and agentsignal "+
				"key create --email ada@example.com --name NAME makes a key",
				"account", "create", "--email", "ada@example.com", "--password", password)
			admin.Fails("12 characters", "account", "create", "--email", "eve@example.com", "--password", "short")
			admin.Fails("password", "account", "create", "--email", "eve@example.com")
			admin.Fails("email", "account", "create", "--password", password)
			if all := decode[[]accountJSON](t, admin.Do("account", "list")); len(all) != 1 || all[0] != made {
				t.Errorf("listed %+v", all)
			}

			// The running service sees the change.
			user := public.with(public.login("ada@example.com", password).Access)
			key := decode[keyJSON](t, admin.Do("key", "create", "--email", "ada@example.com", "--name",
				"laptop", "--scopes", "signals:read,agents:read", "--expires-in", "3600"))
			if len(key.Scopes) != 2 || key.ExpiresAt == nil || key.APIKey == "" {
				t.Errorf("created %+v", key)
			}
			admin.Fails("name", "key", "create", "--email", "ada@example.com", "--name", "laptop")
			admin.Fails("scopes", "key", "create", "--email", "ada@example.com", "--name", "other",
				"--scopes", "everything")
			admin.Fails("no account has the email", "key", "create", "--email", "eve@example.com", "--name", "laptop")
			reader := public.with(key.APIKey)
			reader.signals("")
			reader.tryRun("BTC", "momentum").fails(t, "insufficient_scope")
			listed := decode[[]keyJSON](t, admin.Do("key", "list", "--email", "ada@example.com"))
			if len(listed) != 1 || listed[0].KeyID != key.KeyID || listed[0].APIKey != "" {
				t.Errorf("listed %+v", listed)
			}
			live := reader.dial()
			admin.Fails("not a key_id", "key", "revoke", "--email", "ada@example.com", "laptop")
			admin.Do("key", "revoke", "--email", "ada@example.com", key.KeyID)
			live.closes(4401)
			reader.await("/v1/signals", http.StatusUnauthorized)

			// A new password, from standard input; a lock that is lifted.
			const next = "staple battery horse"
			if _, err := admin.Try(next+"\n", "account", "set-password", "--email", "ada@example.com",
				"--password-stdin"); err != nil {
				t.Errorf("set password: %v", err)
			}
			user.await("/v1/account", http.StatusUnauthorized)
			for range c.Auth.LockAfter {
				public.tryLogin("ada@example.com", password).fails(t, "invalid_credentials")
			}
			public.tryLogin("ada@example.com", next).fails(t, "account_locked")
			admin.Do("account", "unlock", "--email", "ada@example.com")
			user = user.with(public.login("ada@example.com", next).Access)

			live = user.dial()
			admin.Fails("--yes", "account", "delete", "--email", "ada@example.com")
			admin.Do("account", "delete", "--email", "ada@example.com", "--yes")
			live.closes(4403)
			admin.Fails("no account has the email", "account", "delete", "--email", "ada@example.com", "--yes")
			if out := admin.Do("account", "list"); strings.TrimSpace(out) != "[]" {
				t.Errorf("listed %s", out)
			}

			// The commands also work without a running service.
			s.stop(t)
			admin.Do("account", "create", "--email", "bob@example.com", "--password", password)
			again := start(t, c)
			again.client(t).login("bob@example.com", password)
		})
	}
}

// TestCommandsNameTheirDataDirectory on standard error, and say when it is a new one.
func TestCommandsNameTheirDataDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	here, err := os.Getwd()
	must(t, err)
	relative, err := filepath.Rel(here, dir)
	must(t, err)
	for _, c := range []struct{ want, args string }{
		{"the data directory " + dir + " is new and empty: if the service has another one, give that by --data-dir",
			"account create --email ada@example.com --password-file " + written(t, password)},
		{"uses the data directory " + dir + "\n", "account list"},
	} {
		var out, errs journal
		must(t, command(t.Context(), t, nil, &out, &errs, append(strings.Fields(c.args), "--data-dir", relative)...))
		if !strings.Contains(errs.String(), "agentsignal: "+c.want) || !strings.Contains(out.String(), "ada@example.com") {
			t.Errorf("%s writes %q and %q, want %q", c.args, errs.String(), out.String(), c.want)
		}
	}
}

func TestHealthcheckAsksTheService(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s := start(t, testConfig(t, redis.URL()))
	o := operator(t)
	eventually(t, "healthcheck prints that it is ready", func() bool {
		out, err := o.Try("", "healthcheck", "--url", s.url+"/readyz")
		return err == nil && strings.Contains(out, `"status":"ready"`)
	})
	redis.Kill()
	s.client(t).await("/readyz", http.StatusServiceUnavailable)
	o.Fails("not ready", "healthcheck", "--url", s.url+"/readyz")
	redis.Restart()
	s.awaitReady(t)
	s.stop(t)
	o.Fails("nothing listens", "healthcheck", "--url", s.url+"/readyz")
}

func TestTailShowsTheStream(t *testing.T) {
	t.Parallel()
	s := shared(t)
	trader, _ := s.account(t)
	address := "ws" + strings.TrimPrefix(s.url, "http") + "/ws/dashboard"
	o := operator(t)
	o.Fails("give an API key", "tail", "--url", address)
	o.Fails("refuses the key (401)", "tail", "--url", address, "--key", unknownKey())
	o.Fails("its checksum does not fit, so it has a typing error or is not whole: the key is from --key: copy it again",
		"tail", "--url", address, "--key", trader.token[:len(trader.token)-1])

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outputs := map[string]*journal{"for people": {}, "for programs": {}}
	ended := make(chan error, len(outputs))
	for kind, out := range outputs {
		args := []string{"tail", "--url", address, "--key-file", written(t, trader.token), "--assets", "btc"}
		if kind == "for programs" {
			args = append(args, "--json")
		}
		program(t) // builds it here: a goroutine may not end the test
		go func() { ended <- command(ctx, t, nil, out, out, args...) }()
	}
	for kind, out := range outputs {
		eventually(t, "tail "+kind+" has subscribed", func() bool { return out.Line("subscribed") != "" })
	}
	trader.run("ETH", "momentum")
	made := trader.run("BTC", "momentum")
	for kind, out := range outputs {
		eventually(t, "tail "+kind+" shows the signal", func() bool {
			return out.Line(map[string]string{"for people": "new      BTC", "for programs": made.ID}[kind]) != ""
		})
		if line := out.Line("ETH"); line != "" {
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
