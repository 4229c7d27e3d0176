package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestARefreshTokenServesOnce(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	public := s.Client(t)
	user, first, _ := s.User(t)
	live := user.Dial()
	if first.Expires != 900 {
		t.Errorf("an access token lives %d s, want 900", first.Expires)
	}
	second := e2e.Decode[e2e.Tokens](t, public.Refresh(first.Refresh).Ok(t).Body)
	third := e2e.Decode[e2e.Tokens](t, public.Refresh(second.Refresh).Ok(t).Body)
	for _, token := range []string{first.Access, second.Access, third.Access} {
		public.With(token).Get("/v1/account").Ok(t)
	}

	// A used token may have been stolen, so the session ends.
	public.Refresh(first.Refresh).Fails(t, "invalid_refresh_token")
	public.Refresh(third.Refresh).Fails(t, "invalid_refresh_token")
	for _, token := range []string{first.Access, second.Access, third.Access} {
		public.With(token).Get("/v1/account").Fails(t, "invalid_token")
	}
	live.Closes(4401)
	for _, token := range []string{e2e.RefreshForm, "rt_", "x", strings.Repeat("rt_", 5000), first.Access} {
		public.Refresh(token).Fails(t, "invalid_refresh_token")
	}
}

func TestALogoutEndsTheSession(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, email := s.User(t)
	other := user.With(s.Client(t).Login(email, e2e.Password).Access)
	third := user.With(s.Client(t).Login(email, e2e.Password).Access)
	key := user.With(user.Key("key", "").Secret)
	streams := []*e2e.Stream{user.Dial(), other.Dial(), third.Dial(), key.Dial()}

	user.Post("/v1/auth/logout", "").Want(t, http.StatusNoContent)
	user.Get("/v1/account").Fails(t, "invalid_token")
	other.Get("/v1/account").Ok(t)
	streams[0].Closes(4401)
	other.Post("/v1/auth/logout", `{"all":true}`).Want(t, http.StatusNoContent)
	for i, c := range []*e2e.Client{other, third} {
		c.Get("/v1/account").Fails(t, "invalid_token")
		streams[i+1].Closes(4401)
	}
	key.Get("/v1/account").Ok(t)
	streams[3].Ping()
}

func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	public := s.Client(t)
	user, _, email := s.User(t)
	other := user.With(public.Login(email, e2e.Password).Access)
	const next = "staple battery horse"
	change := func(current, next string) e2e.Answer {
		return user.Post("/v1/auth/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, current, next))
	}
	change("wrong wrong wrong", next).Fails(t, "invalid_credentials")
	change(e2e.Password, "short").Fails(t, "invalid_request")
	change(e2e.Password, next).Want(t, http.StatusNoContent)
	user.Get("/v1/account").Ok(t)
	other.Get("/v1/account").Fails(t, "invalid_token")
	public.TryLogin(email, e2e.Password).Fails(t, "invalid_credentials")
	public.Login(email, next)
}

func TestAKeyIsLimitedToItsScopes(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	guarded := []struct{ method, path, body, scope string }{
		{"GET", "/v1/agents", "", "agents:read"},
		{"GET", "/v1/agents/trading", "", "agents:read"},
		{"POST", "/v1/agents/trading/run", e2e.RunBody("BTC", "momentum"), "agents:run"},
		{"GET", "/v1/jobs", "", "agents:run"},
		{"GET", "/v1/jobs/" + string(signal.NewJobID()), "", "agents:run"},
		{"GET", "/v1/signals", "", "signals:read"},
		{"GET", "/v1/signals/" + string(signal.NewSignalID()), "", "signals:read"},
		{"GET", "/v1/signals/weather", "", "signals:read"},
	}
	for _, scope := range signal.Scopes {
		key := user.With(user.Key(string(scope), `["`+string(scope)+`"]`).Secret)
		for _, g := range guarded {
			a := key.Do(g.method, g.path, g.body)
			if g.scope == string(scope) {
				if a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized {
					t.Errorf("%s %s with %s is refused: %s", g.method, g.path, scope, a.Body)
				}
				continue
			}
			p := a.Fails(t, "insufficient_scope")
			want := `Bearer realm="agent-signals", error="insufficient_scope", scope="` + g.scope + `"`
			if p.RequiredScope != g.scope || a.Header.Get("WWW-Authenticate") != want {
				t.Errorf("%s %s with %s: required_scope %q, WWW-Authenticate %q", g.method, g.path, scope,
					p.RequiredScope, a.Header.Get("WWW-Authenticate"))
			}
		}
		for _, path := range []string{"/v1/account", "/v1/versions"} {
			key.Get(path).Ok(t)
		}
		key.Get("/v1/auth/api-keys").Fails(t, "jwt_required")
		key.Post("/v1/auth/api-key", `{"name":"more"}`).Fails(t, "jwt_required")
		key.Post("/v1/auth/logout", "").Fails(t, "jwt_required")

		live := key.Dial()
		d := live.Subscribe(`"channels":["signal.new","signal.updated","signal.closed","agent.status",` +
			`"system.notification"]`)
		want := map[signal.Scope]string{signal.AgentsRead: "agent.status system.notification",
			signal.SignalsRead: "signal.new signal.updated signal.closed system.notification"}[scope]
		if got := strings.Join(d.Channels, " "); got != cmp.Or(want, "system.notification") ||
			len(d.Channels)+len(d.Denied) != 5 {
			t.Errorf("with %s the channels are %s, denied %v", scope, got, d.Denied)
		}
		live.WS.Close()
	}
}

func TestARevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	for range 5 {
		made := user.Key("laptop", `["signals:read"]`)
		user.Post("/v1/auth/api-key", `{"name":" laptop "}`).Fails(t, "name_taken")
		key := user.With(made.Secret)
		live := key.Dial()
		key.Signals("")
		user.Do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").Want(t, http.StatusNoContent)
		key.Get("/v1/signals").Fails(t, "invalid_token")
		live.Closes(4401)
		if _, refused, err := key.TryDial(http.Header{}); err == nil || refused.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stream is opened with a revoked key: %v", err)
		}
		user.Do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").Fails(t, "not_found")
	}
}

func TestAKeyExpires(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	made := e2e.Decode[e2e.APIKey](t, user.Post("/v1/auth/api-key", `{"name":"brief","expires_in":8}`).Want(t,
		http.StatusCreated).Body)
	key := user.With(made.Secret)
	key.Signals("")
	live := key.Dial()
	live.Closes(4401)
	key.Get("/v1/signals").Fails(t, "invalid_token")
	type listed struct {
		Name, Status, Prefix string
		LastUsed             *string `json:"last_used_at"`
	}
	e2e.Eventually(t, "the last use is stored", func() bool {
		keys := e2e.Decode[struct {
			Keys  []listed `json:"api_keys"`
			Total int
		}](t, user.Get("/v1/auth/api-keys").Ok(t).Body)
		if keys.Total != 1 || keys.Keys[0].Name != "brief" || keys.Keys[0].Status != "expired" ||
			keys.Keys[0].Prefix != made.Secret[:8] {
			t.Fatalf("the list has %+v", keys)
		}
		return keys.Keys[0].LastUsed != nil
	})
	user.Post("/v1/auth/api-key", `{"name":"brief"}`).Fails(t, "name_taken") // until it is revoked
}

func TestADeletedAccountIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, first, email := s.User(t)
	key := user.With(user.Key("key", "").Secret)
	made := key.Run("BTC", "momentum")
	streams := []*e2e.Stream{user.Dial(), key.Dial()}
	account := e2e.Decode[e2e.AccountJSON](t, user.Get("/v1/account").Body)
	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), account.AccountID))
	for _, c := range []*e2e.Client{user, key} {
		c.Get("/v1/signals/"+made.ID).Fails(t, "invalid_token")
		c.TryRun("BTC", "momentum").Fails(t, "invalid_token")
	}
	for _, live := range streams {
		live.Closes(4403)
	}
	public := s.Client(t)
	public.Refresh(first.Refresh).Fails(t, "invalid_refresh_token")
	public.TryLogin(email, e2e.Password).Fails(t, "invalid_credentials")

	// The email is free, and its next account sees nothing of the former one.
	if _, err := s.Credentials().Accounts.CreateAccount(t.Context(), email, e2e.Password); err != nil {
		t.Fatalf("create the account again: %v", err)
	}
	next := public.With(public.Login(email, e2e.Password).Access)
	next.Lists("", 0)
	next.Get("/v1/signals/"+made.ID).Fails(t, "not_found")
}

func TestRegistrationIsClosedUnlessOpened(t *testing.T) {
	t.Parallel()
	closed := e2e.Shared(t).Client(t)
	body := e2e.CredentialsBody("eve@example.com", e2e.Password)
	closed.Post("/v1/auth/register", body).Fails(t, "not_found")
	closed.Get("/v1/auth/register").Fails(t, "not_found")

	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Auth.Registration = "open"
	open := e2e.Start(t, c).Client(t)
	made := e2e.Decode[e2e.AccountJSON](t, open.Post("/v1/auth/register",
		e2e.CredentialsBody(" Eve@Example.com", e2e.Password)).Want(t, http.StatusCreated).Body)
	if made.Email != "eve@example.com" {
		t.Errorf("registered %+v", made)
	}
	open.Post("/v1/auth/register", body).Fails(t, "email_taken")
	for _, bad := range []string{e2e.CredentialsBody("eve", e2e.Password), e2e.CredentialsBody("eve2@example.com", "short"),
		e2e.CredentialsBody("eve2@example.com", "password1234"),
		e2e.CredentialsBody("eve2@example.com", "eve2@example.com"), `{}`} {
		open.Post("/v1/auth/register", bad).Fails(t, "invalid_request")
	}
	open.Get("/v1/auth/register").Fails(t, "method_not_allowed")
}

func TestRateLimitsShowWhatRemains(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.RateLimit.Reads, c.RateLimit.Runs, c.RateLimit.Writes, c.RateLimit.Streams = "5/h", "3/h", "2/h", "2/h"
	c.RateLimit.Logins, c.RateLimit.Sessions, c.RateLimit.Failures = "4/h", "3/h", "30/h"
	s := e2e.Start(t, c)
	user, _, _ := s.User(t) // one login
	key, _ := s.Account(t)
	public := s.Client(t)
	for _, limited := range []struct {
		class string
		quota int
		ask   func() e2e.Answer
	}{
		{"reads", 5, func() e2e.Answer { return user.Get("/v1/signals") }},
		{"runs", 3, func() e2e.Answer { return user.Post("/v1/agents/trading/run", `{}`) }},
		{"writes", 2, func() e2e.Answer { return user.Post("/v1/auth/api-key", `{}`) }},
		{"streams", 2, func() e2e.Answer { return key.Get("/ws/dashboard") }},
		{"sessions", 3, func() e2e.Answer { return public.Post("/v1/auth/refresh", `{}`) }},
		{"logins", 3, func() e2e.Answer { return public.Post("/v1/auth/login", `{}`) }},
	} {
		for n := 1; n <= limited.quota+2; n++ {
			a := limited.ask()
			limit, left := limited.quota, max(0, limited.quota-n)
			if limited.class == "logins" {
				limit = 4
			}
			over := n > limited.quota
			if over {
				a.Fails(t, "rate_limited")
			} else if a.Status == http.StatusTooManyRequests {
				t.Errorf("%s: request %d of %d is refused", limited.class, n, limited.quota)
			}
			checkLimit(t, fmt.Sprintf("%s: answer %d", limited.class, n), a, limited.class, limit, left, over)
		}
	}
	// A limit is for one account and one class.
	key.Get("/v1/account").Ok(t)
	if got := s.Metric(t, "agentsignal_http_rate_limited_total", `class="runs"`); got != 2 {
		t.Errorf("%v refused runs are counted, want 2", got)
	}

	// Guesses reach the limit of failures: 429 instead of 401. Some failures were counted
	// above; on a slow machine some tokens are back.
	for n := 1; ; n++ {
		a := public.With(e2e.UnknownKey()).Get("/v1/signals")
		if a.Status == http.StatusTooManyRequests {
			checkLimit(t, "a guess", a, "failures", 30, 0, true)
			if n < 20 {
				t.Errorf("guess %d of 30 is refused", n)
			}
			break
		}
		a.Fails(t, "invalid_token")
		if n > 35 {
			t.Fatalf("after %d guesses none is refused", n)
		}
	}
}

// checkLimit checks the headers of the limit in an answer.
func checkLimit(tb testing.TB, what string, a e2e.Answer, class string, limit, left int, over bool) {
	tb.Helper()
	h := a.Header
	if got, want := h.Get("RateLimit-Policy"), fmt.Sprintf("%q;q=%d;w=3600", class, limit); got != want {
		tb.Errorf("%s: RateLimit-Policy is %q, want %q", what, got, want)
	}
	if got := h.Get("RateLimit"); !strings.HasPrefix(got, fmt.Sprintf("%q;r=%d;t=", class, left)) {
		tb.Errorf("%s: RateLimit is %q, want r=%d", what, got, left)
	}
	if h.Get("X-RateLimit-Limit") != strconv.Itoa(limit) || h.Get("X-RateLimit-Remaining") != strconv.Itoa(left) {
		tb.Errorf("%s: X-RateLimit-Limit %q, X-RateLimit-Remaining %q, want %d and %d", what,
			h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), limit, left)
	}
	reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if in := time.Until(time.Unix(reset, 0)); err != nil || in < -time.Minute || in > time.Hour+time.Minute {
		tb.Errorf("%s: X-RateLimit-Reset is %q", what, h.Get("X-RateLimit-Reset"))
	}
	retry := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(retry); over != (retry != "") || over &&
		(err != nil || seconds < 1 || seconds > 3600) {
		tb.Errorf("%s: Retry-After is %q", what, retry)
	}
}

func TestTooManyFailedLoginsLockTheEmail(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Auth.LockAfter = 3
	s := e2e.Start(t, c)
	public := s.Client(t)
	email, unknown := e2e.NewEmail(), e2e.NewEmail()
	if _, err := s.Credentials().Accounts.CreateAccount(t.Context(), email, e2e.Password); err != nil {
		t.Fatal(err)
	}
	login := public.TryLogin
	// A success in between clears the count.
	for range 2 {
		login(email, "wrong").Fails(t, "invalid_credentials")
		login(email, "wrong").Fails(t, "invalid_credentials")
		login(email, e2e.Password).Ok(t)
	}
	for _, who := range []string{email, unknown, strings.ToUpper(e2e.NewEmail())} { // unknown ones behave the same
		for range 3 {
			login(who, "wrong").Fails(t, "invalid_credentials")
		}
		for _, attempt := range []string{"wrong", e2e.Password} {
			a := login(" "+strings.ToLower(who), attempt)
			a.Fails(t, "account_locked")
			if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 14*60 ||
				seconds > 15*60 {
				t.Errorf("a locked login has Retry-After %q, want 15 minutes", a.Header.Get("Retry-After"))
			}
		}
	}
	if locks := s.Metric(t, "agentsignal_auth_locks_total"); locks != 3 {
		t.Errorf("%v locks are counted, want 3", locks)
	}
	e2e.Must(t, s.Credentials().Locks.Unlock(t.Context(), email))
	login(email, e2e.Password).Ok(t)
	login("no address", e2e.Password).Fails(t, "invalid_credentials")
	for _, body := range []string{e2e.CredentialsBody("", e2e.Password), e2e.CredentialsBody(email, ""), `{}`,
		`{"email":1,"password":2}`} {
		login := public.Post("/v1/auth/login", body)
		login.Fails(t, "invalid_request")
	}
}
