package credentials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestUsesAndChangesAreLogged demands one line each, with the account and the client.
func TestUsesAndChangesAreLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newTestService(t, Options{MaxSessions: 2, Log: slog.New(slog.NewJSONHandler(&out, nil))})
	ctx := WithClient(t.Context(), Client{Address: "192.0.2.7", Request: "req_1"})
	// lines returns what was logged since the last call, without time and component.
	lines := func() []string {
		t.Helper()
		var all []string
		for line := range strings.Lines(out.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if m["address"] != "192.0.2.7" || m["request"] != "req_1" || m["component"] != "credentials" {
				t.Errorf("line %s", line)
			}
			text := fmt.Sprint(m["level"], ": ", m["msg"])
			for _, name := range []string{"account", "session", "key", "all", "ended", "keys", "first", "last"} {
				if v, ok := m[name]; ok {
					text += fmt.Sprint(" ", name, "=", v)
				}
			}
			all = append(all, text)
		}
		out.Reset()
		return all
	}
	want := func(what string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, lines()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	login := func() Tokens {
		t.Helper()
		tokens, err := s.Sessions.Login(ctx, "a@example.com", goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	a, err := s.Accounts.CreateAccount(ctx, "a@example.com", goodPassword)
	check(err)
	account := " account=" + string(a.ID)
	want("register", "INFO: account created"+account)
	first := login()
	own := account + " session=" + string(first.Session)
	want("login", "INFO: login"+own)
	p := s.principal(t, first.Access)
	k, secret, err := s.Keys.CreateKey(ctx, a.ID, "name", nil, nil)
	check(err)
	want("a key", "INFO: API key created"+account+" key="+string(k.ID))
	check(s.Keys.RevokeKey(ctx, a.ID, k.ID))
	want("revoked", "INFO: API key revoked"+account+" key="+string(k.ID))

	r, _, err := s.Readers.CreateReader(ctx, a.ID, "reader", everything)
	check(err)
	want("a reader", "INFO: API key created"+account+" key="+string(r.ID))
	many, _, err := s.Readers.CreateReaders(ctx, a.ID, "reader", 3, everything)
	check(err)
	want("readers", fmt.Sprintf("INFO: API keys created%s keys=3 first=%s last=%s", account, many[0].ID, many[2].ID))
	_, err = s.Readers.RevokeReaders(ctx, a.ID, "reader-")
	check(err)
	want("revoked by their names", "INFO: API keys revoked"+account+" keys=3")
	_, err = s.Readers.RevokeReaders(ctx, a.ID, "reader-")
	check(err)
	want("revoked again")

	const next = "four green hedgehogs"
	check(s.Accounts.ChangePassword(ctx, p, goodPassword, next))
	want("password", "INFO: password changed"+own+" ended=0")
	check(s.Accounts.SetPassword(ctx, a.ID, goodPassword))
	want("password by an operator", "INFO: password changed"+account+" ended=1")

	second := login()
	_, err = s.Sessions.Refresh(ctx, second.Refresh)
	check(err)
	lines()
	_, err = s.Sessions.Refresh(ctx, second.Refresh)
	wantCode(t, err, "invalid_refresh_token")
	want("reuse", "WARN: session ended: a refresh token was used twice"+account+" session="+string(second.Session))
	login()
	third := login()
	lines()
	fourth := login()
	want("one session too many", "INFO: sessions ended: the account has too many"+account+" ended=1",
		"INFO: login"+account+" session="+string(fourth.Session))
	check(s.Sessions.Logout(ctx, s.principal(t, third.Access), false))
	want("logout", "INFO: logout"+account+" session="+string(third.Session)+" all=false")
	check(s.Sessions.Logout(ctx, s.principal(t, fourth.Access), true))
	want("logout of all", "INFO: logout"+account+" session="+string(fourth.Session)+" all=true")

	_, err = s.Sessions.Login(ctx, "b@example.com", goodPassword)
	wantCode(t, err, "invalid_credentials")
	want("an unknown email", "INFO: login failed")
	for range 5 {
		_, err := s.Sessions.Login(ctx, a.Email, "wrong password")
		wantCode(t, err, "invalid_credentials")
	}
	failed := "INFO: login failed" + account
	want("wrong passwords", failed, failed, failed, failed, "WARN: email locked after failed logins"+account)
	_, err = s.Sessions.Login(ctx, a.Email, goodPassword)
	wantCode(t, err, "account_locked")
	want("while it is locked", "INFO: login refused: the email is locked")
	wantCode(t, s.Accounts.ChangePassword(ctx, p, goodPassword, next), "account_locked")
	want("a password while it is locked", "INFO: login refused: the email is locked"+account)
	check(s.Accounts.DeleteAccount(ctx, a.ID))
	want("deleted", "INFO: account deleted"+account)

	s.Authenticator.Authenticate(ctx, secret)
	s.clock.forward(time.Hour)
	want("the use of a key")
}
