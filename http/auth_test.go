package http_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
)

func TestSessionsBeginAndEnd(t *testing.T) {
	t.Parallel()
	var calls []string
	f := &fakes{
		login: func(email, password string) (credentials.Tokens, error) {
			calls = append(calls, "login", email, password)
			return newTokens(), nil
		},
		refresh: func(token string) (credentials.Tokens, error) {
			calls = append(calls, "refresh", token)
			return newTokens(), nil
		},
		logout: func(p signal.Principal, all bool) error {
			calls = append(calls, "logout", string(p.Session), map[bool]string{true: "all", false: "one"}[all])
			return nil
		},
	}
	s := newServer(t, f)
	want := `{"access_token":"eyJ","token_type":"bearer","expires_in":900,` +
		`"refresh_token":"rt_q3V0xH7mW2cY8nB5kR1tZ6pL4sD9fG0jA7eU2iO5vXw"}`
	if a := do(t, s, "POST", "/v1/auth/login", `{"email":"ada@example.com","password":"correct horse"}`,
		"Authorization:"); a.Status != 200 || a.Body != want {
		t.Errorf("login: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "POST", "/v1/auth/refresh", `{"refresh_token":"rt_1"}`,
		"Authorization: Bearer nonsense"); a.Status != 200 || a.Body != want {
		t.Errorf("refresh: %d %s", a.Status, a.Body)
	}
	for _, body := range []string{"", "{}", `{"all":null}`, `{"all":true}`} {
		if a := do(t, s, "POST", "/v1/auth/logout", body, "Authorization: Bearer jwt"); a.Status != 204 ||
			a.Body != "" {
			t.Errorf("logout with %q: %d %s", body, a.Status, a.Body)
		}
	}
	wantCalls := strings.Fields("login ada@example.com correct_horse refresh rt_1 logout ses_1 one logout ses_1 one " +
		"logout ses_1 one logout ses_1 all")
	wantCalls[2] = "correct horse"
	if d := cmp.Diff(wantCalls, calls); d != "" {
		t.Errorf("calls of credentials (-want +got):\n%s", d)
	}
}

func TestAccountsAndPasswords(t *testing.T) {
	t.Parallel()
	var changed []string
	f := &fakes{password: func(p signal.Principal, current, next string) error {
		changed = append(changed, current, next)
		return nil
	}}
	s := newServer(t, f)
	want := `{"account_id":"acc_01M7YQ1WE0AE67Z5NHCJZHQ5XV","email":"ada@example.com",` +
		`"created_at":"2026-11-21T09:30:00.000Z"}`
	if a := do(t, s, "POST", "/v1/auth/register", `{"email":"ada@example.com","password":"correct horse"}`,
		"Authorization:"); a.Status != 201 || a.Body != want {
		t.Errorf("register: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "GET", "/v1/account", "", "Authorization: bEARER  reader"); a.Status != 200 || a.Body != want {
		t.Errorf("account: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "POST", "/v1/auth/password", `{"current_password":"old","new_password":"correct horse"}`,
		"Authorization: Bearer jwt"); a.Status != 204 {
		t.Errorf("password: %d %s", a.Status, a.Body)
	}
	if d := cmp.Diff([]string{"old", "correct horse"}, changed); d != "" {
		t.Errorf("passwords (-want +got):\n%s", d)
	}
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	f := &fakes{
		key: func(account signal.AccountID, name string, scopes []string,
			expiresIn *int64) (credential.APIKey, string, error) {
			k := credential.APIKey{ID: keyID, Name: name, Scopes: signal.AllScopes, CreatedAt: morning}
			if scopes != nil {
				k.Scopes = 0
				for _, scope := range scopes {
					k.Scopes |= signal.ScopesOf(signal.Scope(scope))
				}
			}
			if expiresIn != nil {
				k.ExpiresAt = morning.Add(time.Duration(*expiresIn) * time.Second)
			}
			return k, secret, nil
		},
		keys: func(_ signal.AccountID, limit, offset int) ([]credential.APIKey, int, error) {
			if limit != 25 || offset != 0 {
				t.Errorf("asked for %d %d", limit, offset)
			}
			return []credential.APIKey{
				{ID: keyID, Name: "a", Prefix: secret[:8], Scopes: signal.AllScopes, CreatedAt: morning,
					LastUsedAt: morning},
				{ID: keyID, Name: "b", Prefix: secret[:8], Scopes: signal.ScopesOf(signal.AgentsRun),
					CreatedAt: morning.Add(-time.Hour), ExpiresAt: morning},
			}, 2, nil
		},
	}
	s := newServer(t, f)
	tests := []struct{ body, want string }{
		{`{"name":"  my key "}`, `"name":"my key","scopes":["agents:read","agents:run","signals:read",` +
			`"webhooks:manage"],` +
			`"created_at":"2026-11-21T09:30:00.000Z","expires_at":null}`},
		{`{"name":"k","scopes":["signals:read","agents:read","signals:read"],"expires_in":60}`,
			`"scopes":["agents:read","signals:read"],"created_at":"2026-11-21T09:30:00.000Z",` +
				`"expires_at":"2026-11-21T09:31:00.000Z"}`},
		{`{"name":"k","scopes":null,"expires_in":null}`, `"expires_at":null}`},
		{`{"name":"k","expires_in":3.6e3}`, `"expires_at":"2026-11-21T10:30:00.000Z"}`},
	}
	for _, test := range tests {
		a := do(t, s, "POST", "/v1/auth/api-key", test.body, "Authorization: Bearer jwt")
		if a.Status != 201 || !strings.HasPrefix(a.Body, `{"key_id":"`+string(keyID)+`","api_key":"`+secret+`",`) ||
			!strings.HasSuffix(a.Body, test.want) {
			t.Errorf("%s: got %d %s", test.body, a.Status, a.Body)
		}
	}
	want := `{"api_keys":[{"key_id":"key_01M7YQ1WJ9KX5V8WQ8KXDH917J","name":"a","scopes":["agents:read","agents:run",` +
		`"signals:read","webhooks:manage"],` +
		`"created_at":"2026-11-21T09:30:00.000Z","expires_at":null,"prefix":"ask_0123",` +
		`"last_used_at":"2026-11-21T09:30:00.000Z","status":"active"},` +
		`{"key_id":"key_01M7YQ1WJ9KX5V8WQ8KXDH917J","name":"b","scopes":["agents:run"],` +
		`"created_at":"2026-11-21T08:30:00.000Z",` +
		`"expires_at":"2026-11-21T09:30:00.000Z","prefix":"ask_0123","last_used_at":null,` +
		`"status":"expired"}],"total":2}`
	if a := do(t, s, "GET", "/v1/auth/api-keys", "", "Authorization: Bearer jwt"); a.Body != want {
		t.Errorf("list:\n got %s\nwant %s", a.Body, want)
	}
	if a := do(t, s, "DELETE", "/v1/auth/api-keys/"+string(keyID), "", "Authorization: Bearer jwt"); a.Status != 204 {
		t.Errorf("revoke: %d", a.Status)
	}
}
