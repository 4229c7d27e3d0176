package service

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// user makes an account and returns a client with an access token of it, the tokens,
// and its email.
func (s *service) user(tb testing.TB) (*client, tokens, string) {
	tb.Helper()
	email := newEmail()
	if _, err := s.process.credentials.CreateAccount(tb.Context(), email, password); err != nil {
		tb.Fatalf("create account: %v", err)
	}
	got := s.client(tb).login(email, password)
	return newClient(tb, s.url, got.Access), got, email
}

func (c *client) refresh(token string) answer {
	c.tb.Helper()
	return c.post("/v1/auth/refresh", `{"refresh_token":"`+token+`"}`)
}

func TestARefreshTokenServesOnce(t *testing.T) {
	t.Parallel()
	s := shared(t)
	public := s.client(t)
	user, first, _ := s.user(t)
	live := user.dial()
	if first.Expires != 900 {
		t.Errorf("an access token lives %d s, want 900", first.Expires)
	}
	second := decode[tokens](t, public.refresh(first.Refresh).ok(t).Body)
	third := decode[tokens](t, public.refresh(second.Refresh).ok(t).Body)
	for _, token := range []string{first.Access, second.Access, third.Access} {
		public.with(token).get("/v1/account").ok(t)
	}

	// A used token may have been stolen, so the session ends.
	public.refresh(first.Refresh).fails(t, "invalid_refresh_token")
	public.refresh(third.Refresh).fails(t, "invalid_refresh_token")
	for _, token := range []string{first.Access, second.Access, third.Access} {
		public.with(token).get("/v1/account").fails(t, "invalid_token")
	}
	live.closes(4401)
	for _, token := range []string{refreshForm, "rt_", "x", strings.Repeat("rt_", 5000), first.Access} {
		public.refresh(token).fails(t, "invalid_refresh_token")
	}
}

func TestALogoutEndsTheSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	user, _, email := s.user(t)
	other := user.with(s.client(t).login(email, password).Access)
	third := user.with(s.client(t).login(email, password).Access)
	key := user.with(user.key("key", "").Secret)
	streams := []*stream{user.dial(), other.dial(), third.dial(), key.dial()}

	user.post("/v1/auth/logout", "").want(t, http.StatusNoContent)
	user.get("/v1/account").fails(t, "invalid_token")
	other.get("/v1/account").ok(t)
	streams[0].closes(4401)
	other.post("/v1/auth/logout", `{"all":true}`).want(t, http.StatusNoContent)
	for i, c := range []*client{other, third} {
		c.get("/v1/account").fails(t, "invalid_token")
		streams[i+1].closes(4401)
	}
	key.get("/v1/account").ok(t)
	streams[3].ping()
}

func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	s := shared(t)
	public := s.client(t)
	user, _, email := s.user(t)
	other := user.with(public.login(email, password).Access)
	const next = "staple battery horse"
	change := func(current, next string) answer {
		return user.post("/v1/auth/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, current, next))
	}
	change("wrong wrong wrong", next).fails(t, "invalid_credentials")
	change(password, "short").fails(t, "invalid_request")
	change(password, next).want(t, http.StatusNoContent)
	user.get("/v1/account").ok(t)
	other.get("/v1/account").fails(t, "invalid_token")
	public.tryLogin(email, password).fails(t, "invalid_credentials")
	public.login(email, next)
}

func TestAKeyIsLimitedToItsScopes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	user, _, _ := s.user(t)
	guarded := []struct{ method, path, body, scope string }{
		{"GET", "/v1/agents", "", "agents:read"},
		{"GET", "/v1/agents/trading", "", "agents:read"},
		{"POST", "/v1/agents/trading/run", runBody("BTC", "momentum"), "agents:run"},
		{"GET", "/v1/jobs", "", "agents:run"},
		{"GET", "/v1/jobs/" + string(signal.NewJobID()), "", "agents:run"},
		{"GET", "/v1/signals", "", "signals:read"},
		{"GET", "/v1/signals/" + string(signal.NewSignalID()), "", "signals:read"},
		{"GET", "/v1/signals/weather", "", "signals:read"},
	}
	for _, scope := range signal.Scopes {
		key := user.with(user.key(string(scope), `["`+string(scope)+`"]`).Secret)
		for _, g := range guarded {
			a := key.do(g.method, g.path, g.body)
			if g.scope == string(scope) {
				if a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized {
					t.Errorf("%s %s with %s is refused: %s", g.method, g.path, scope, a.Body)
				}
				continue
			}
			p := a.fails(t, "insufficient_scope")
			want := `Bearer realm="agent-signals", error="insufficient_scope", scope="` + g.scope + `"`
			if p.RequiredScope != g.scope || a.Header.Get("WWW-Authenticate") != want {
				t.Errorf("%s %s with %s: required_scope %q, WWW-Authenticate %q", g.method, g.path, scope,
					p.RequiredScope, a.Header.Get("WWW-Authenticate"))
			}
		}
		for _, path := range []string{"/v1/account", "/v1/versions"} {
			key.get(path).ok(t)
		}
		key.get("/v1/auth/api-keys").fails(t, "jwt_required")
		key.post("/v1/auth/api-key", `{"name":"more"}`).fails(t, "jwt_required")
		key.post("/v1/auth/logout", "").fails(t, "jwt_required")

		live := key.dial()
		d := live.subscribe(`"channels":["signal.new","signal.updated","signal.closed","agent.status",` +
			`"system.notification"]`)
		want := map[signal.Scope]string{signal.AgentsRead: "agent.status system.notification",
			signal.SignalsRead: "signal.new signal.updated signal.closed system.notification"}[scope]
		if got := strings.Join(d.Channels, " "); got != cmp.Or(want, "system.notification") ||
			len(d.Channels)+len(d.Denied) != 5 {
			t.Errorf("with %s the channels are %s, denied %v", scope, got, d.Denied)
		}
		live.ws.Close()
	}
}

func TestARevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := shared(t)
	user, _, _ := s.user(t)
	for range 5 {
		made := user.key("laptop", `["signals:read"]`)
		user.post("/v1/auth/api-key", `{"name":" laptop "}`).fails(t, "name_taken")
		key := user.with(made.Secret)
		live := key.dial()
		key.signals("")
		user.do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").want(t, http.StatusNoContent)
		key.get("/v1/signals").fails(t, "invalid_token")
		live.closes(4401)
		if _, refused, err := key.tryDial(http.Header{}); err == nil || refused.StatusCode != http.StatusUnauthorized {
			t.Errorf("a stream is opened with a revoked key: %v", err)
		}
		user.do(http.MethodDelete, "/v1/auth/api-keys/"+made.ID, "").fails(t, "not_found")
	}
}

func TestAKeyExpires(t *testing.T) {
	t.Parallel()
	s := shared(t)
	user, _, _ := s.user(t)
	made := decode[apiKey](t, user.post("/v1/auth/api-key", `{"name":"brief","expires_in":8}`).want(t,
		http.StatusCreated).Body)
	key := user.with(made.Secret)
	key.signals("")
	live := key.dial()
	live.closes(4401)
	key.get("/v1/signals").fails(t, "invalid_token")
	type listed struct {
		Name, Status, Prefix string
		LastUsed             *string `json:"last_used_at"`
	}
	eventually(t, "the last use is stored", func() bool {
		keys := decode[struct {
			Keys  []listed `json:"api_keys"`
			Total int
		}](t, user.get("/v1/auth/api-keys").ok(t).Body)
		if keys.Total != 1 || keys.Keys[0].Name != "brief" || keys.Keys[0].Status != "expired" ||
			keys.Keys[0].Prefix != made.Secret[:8] {
			t.Fatalf("the list has %+v", keys)
		}
		return keys.Keys[0].LastUsed != nil
	})
	user.post("/v1/auth/api-key", `{"name":"brief"}`).fails(t, "name_taken") // until it is revoked
}

func TestADeletedAccountIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	s := shared(t)
	user, first, email := s.user(t)
	key := user.with(user.key("key", "").Secret)
	made := key.run("BTC", "momentum")
	streams := []*stream{user.dial(), key.dial()}
	account := decode[accountJSON](t, user.get("/v1/account").Body)
	must(t, s.process.credentials.DeleteAccount(t.Context(), account.AccountID))
	for _, c := range []*client{user, key} {
		c.get("/v1/signals/"+made.ID).fails(t, "invalid_token")
		c.tryRun("BTC", "momentum").fails(t, "invalid_token")
	}
	for _, live := range streams {
		live.closes(4403)
	}
	public := s.client(t)
	public.refresh(first.Refresh).fails(t, "invalid_refresh_token")
	public.tryLogin(email, password).fails(t, "invalid_credentials")

	// The email is free, and its next account sees nothing of the former one.
	if _, err := s.process.credentials.CreateAccount(t.Context(), email, password); err != nil {
		t.Fatalf("create the account again: %v", err)
	}
	next := public.with(public.login(email, password).Access)
	next.lists("", 0)
	next.get("/v1/signals/"+made.ID).fails(t, "not_found")
}

func TestRegistrationIsClosedUnlessOpened(t *testing.T) {
	t.Parallel()
	closed := shared(t).client(t)
	body := credentialsBody("eve@example.com", password)
	closed.post("/v1/auth/register", body).fails(t, "not_found")
	closed.get("/v1/auth/register").fails(t, "not_found")

	c := testConfig(t, redistest.New(t).URL())
	c.Auth.Registration = "open"
	open := start(t, c).client(t)
	made := decode[accountJSON](t, open.post("/v1/auth/register", credentialsBody(" Eve@Example.com", password)).want(t,
		http.StatusCreated).Body)
	if made.Email != "eve@example.com" {
		t.Errorf("registered %+v", made)
	}
	open.post("/v1/auth/register", body).fails(t, "email_taken")
	for _, bad := range []string{credentialsBody("eve", password), credentialsBody("eve2@example.com", "short"),
		credentialsBody("eve2@example.com", "password1234"),
		credentialsBody("eve2@example.com", "eve2@example.com"), `{}`} {
		open.post("/v1/auth/register", bad).fails(t, "invalid_request")
	}
	open.get("/v1/auth/register").fails(t, "method_not_allowed")
}

func TestRateLimitsShowWhatRemains(t *testing.T) {
	t.Parallel()
	c := testConfig(t, redistest.New(t).URL())
	c.RateLimit.Reads, c.RateLimit.Runs, c.RateLimit.Writes, c.RateLimit.Streams = "5/h", "3/h", "2/h", "2/h"
	c.RateLimit.Logins, c.RateLimit.Sessions, c.RateLimit.Failures = "4/h", "3/h", "30/h"
	s := start(t, c)
	user, _, _ := s.user(t) // one login
	key, _ := s.account(t)
	public := s.client(t)
	for _, limited := range []struct {
		class string
		quota int
		ask   func() answer
	}{
		{"reads", 5, func() answer { return user.get("/v1/signals") }},
		{"runs", 3, func() answer { return user.post("/v1/agents/trading/run", `{}`) }},
		{"writes", 2, func() answer { return user.post("/v1/auth/api-key", `{}`) }},
		{"streams", 2, func() answer { return key.get("/ws/dashboard") }},
		{"sessions", 3, func() answer { return public.post("/v1/auth/refresh", `{}`) }},
		{"logins", 3, func() answer { return public.post("/v1/auth/login", `{}`) }},
	} {
		for n := 1; n <= limited.quota+2; n++ {
			a := limited.ask()
			limit, left := limited.quota, max(0, limited.quota-n)
			if limited.class == "logins" {
				limit = 4
			}
			over := n > limited.quota
			if over {
				a.fails(t, "rate_limited")
			} else if a.Status == http.StatusTooManyRequests {
				t.Errorf("%s: request %d of %d is refused", limited.class, n, limited.quota)
			}
			checkLimit(t, fmt.Sprintf("%s: answer %d", limited.class, n), a, limited.class, limit, left, over)
		}
	}
	// A limit is for one account and one class.
	key.get("/v1/account").ok(t)
	if got := s.metric(t, "agentsignal_http_rate_limited_total", `class="runs"`); got != 2 {
		t.Errorf("%v refused runs are counted, want 2", got)
	}

	// Guesses reach the limit of failures: 429 instead of 401. Some failures were counted
	// above; on a slow machine some tokens are back.
	for n := 1; ; n++ {
		a := public.with(unknownKey()).get("/v1/signals")
		if a.Status == http.StatusTooManyRequests {
			checkLimit(t, "a guess", a, "failures", 30, 0, true)
			if n < 20 {
				t.Errorf("guess %d of 30 is refused", n)
			}
			break
		}
		a.fails(t, "invalid_token")
		if n > 35 {
			t.Fatalf("after %d guesses none is refused", n)
		}
	}
}

// checkLimit checks the headers of the limit in an answer.
func checkLimit(tb testing.TB, what string, a answer, class string, limit, left int, over bool) {
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
	c := testConfig(t, redistest.New(t).URL())
	c.Auth.LockAfter = 3
	s := start(t, c)
	public := s.client(t)
	email, unknown := newEmail(), newEmail()
	if _, err := s.process.credentials.CreateAccount(t.Context(), email, password); err != nil {
		t.Fatal(err)
	}
	login := public.tryLogin
	// A success in between clears the count.
	for range 2 {
		login(email, "wrong").fails(t, "invalid_credentials")
		login(email, "wrong").fails(t, "invalid_credentials")
		login(email, password).ok(t)
	}
	for _, who := range []string{email, unknown, strings.ToUpper(newEmail())} { // unknown ones behave the same
		for range 3 {
			login(who, "wrong").fails(t, "invalid_credentials")
		}
		for _, attempt := range []string{"wrong", password} {
			a := login(" "+strings.ToLower(who), attempt)
			a.fails(t, "account_locked")
			if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 14*60 ||
				seconds > 15*60 {
				t.Errorf("a locked login has Retry-After %q, want 15 minutes", a.Header.Get("Retry-After"))
			}
		}
	}
	if locks := s.metric(t, "agentsignal_auth_locks_total"); locks != 3 {
		t.Errorf("%v locks are counted, want 3", locks)
	}
	must(t, s.process.credentials.Unlock(t.Context(), email))
	login(email, password).ok(t)
	login("no address", password).fails(t, "invalid_credentials")
	for _, body := range []string{credentialsBody("", password), credentialsBody(email, ""), `{}`,
		`{"email":1,"password":2}`} {
		login := public.post("/v1/auth/login", body)
		login.fails(t, "invalid_request")
	}
}
