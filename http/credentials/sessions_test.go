package credentials

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestLoginGivesTokens(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	tokens, err := s.Sessions.Login(t.Context(), " A@example.com ", goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	if tokens.ExpiresIn != 900*time.Second || tokens.Account != a.ID {
		t.Errorf("%+v", tokens)
	}
	if !regexp.MustCompile(`^rt_[0-9A-Za-z]{43}$`).MatchString(tokens.Refresh) {
		t.Errorf("refresh token %q", tokens.Refresh)
	}
	token, _, err := jwt.NewParser().ParseUnverified(tokens.Access, jwt.MapClaims{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{"alg": "HS256", "typ": "JWT", "kid": "new"}, token.Header); d != "" {
		t.Errorf("header (-want +got):\n%s", d)
	}
	c := token.Claims.(jwt.MapClaims)
	for name, want := range map[string]any{"iss": "agentsignal", "sub": string(a.ID), "aud": []any{"agentsignal"},
		"sid":   string(tokens.Session),
		"scope": "agents:read agents:run signals:read webhooks:manage", "exp": c["iat"].(float64) + 900,
		"nbf": c["iat"]} {
		if d := cmp.Diff(want, c[name]); d != "" {
			t.Errorf("claim %s (-want +got):\n%s", name, d)
		}
	}
	if jti, _ := c["jti"].(string); len(jti) < 16 || len(c) != 9 {
		t.Errorf("claims %v", c)
	}
	want := signal.Principal{Account: a.ID, Session: tokens.Session, Scopes: signal.AllScopes,
		ExpiresAt: time.Unix(int64(c["exp"].(float64)), 0).UTC()}
	if d := cmp.Diff(want, s.principal(t, tokens.Access)); d != "" {
		t.Errorf("principal (-want +got):\n%s", d)
	}
	if err := s.Authenticator.RequireJWT(s.principal(t, tokens.Access)); err != nil {
		t.Error(err)
	}
}

func TestAccessTokenLivesFor15Minutes(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	tokens := s.login(t, "a@example.com")
	s.clock.forward(14*time.Minute + 55*time.Second)
	s.principal(t, tokens.Access)
	s.clock.forward(6 * time.Second) // no leeway
	s.wantRefused(t, tokens.Access)
}

func TestLoginRevealsNoAccounts(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	texts := map[string]bool{}
	for _, c := range [][2]string{{"a@example.com", "wrong password"}, {"b@example.com", goodPassword},
		{"no address", goodPassword},
		{strings.Repeat("x", 10_000), "x"}, {"a@example.com", strings.Repeat("x", 10_000)}, {"\x00", "\x00"}} {
		_, err := s.Sessions.Login(t.Context(), c[0], c[1])
		wantCode(t, err, "invalid_credentials")
		texts[err.Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("texts differ: %v", texts)
	}
	_, err := s.Sessions.Login(t.Context(), "", "")
	wantFields(t, err, "email required", "password required")
	_, err = s.Sessions.Login(t.Context(), "  ", "x")
	wantFields(t, err, "email required")
	_, err = s.Sessions.Login(t.Context(), "a@example.com", "")
	wantFields(t, err, "password required")
	if right, _, err := s.Sessions.hashes.compare(t.Context(), goodPassword, ""); right || err != nil {
		t.Errorf("a password without an account: %v, %v", right, err)
	}
}

// TestAnUnknownEmailCostsAHash: the password is compared with a hash of the same cost, so
// that the time of an answer does not reveal accounts.
func TestAnUnknownEmailCostsAHash(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	_, stored, err := s.store.Credentials.AccountByID(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	var compared []string
	s.Sessions.hashes.check = func(password, hash string) (bool, *argon2id.Params, error) {
		compared = append(compared, hash)
		return argon2id.CheckHash(password, hash)
	}
	for email, want := range map[string]string{a.Email: stored.Hash, "b@example.com": s.Sessions.hashes.dummy} {
		compared = nil
		_, err := s.Sessions.Login(t.Context(), email, "wrong password")
		wantCode(t, err, "invalid_credentials")
		if d := cmp.Diff([]string{want}, compared); d != "" {
			t.Errorf("%s (-want +got):\n%s", email, d)
		}
	}
	known, _, _, err := argon2id.DecodeHash(stored.Hash)
	if err != nil {
		t.Fatal(err)
	}
	dummy, _, _, err := argon2id.DecodeHash(s.Sessions.hashes.dummy)
	if d := cmp.Diff(known, dummy); err != nil || d != "" {
		t.Errorf("%v (-stored +dummy):\n%s", err, d)
	}
}

func TestRefreshUsesTheTokenUp(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	first := s.login(t, a.Email)
	second := s.refresh(t, first.Refresh)
	if second.Refresh == first.Refresh || second.Access == first.Access || second.Session != first.Session ||
		second.ExpiresIn != 900*time.Second {
		t.Errorf("%+v after %+v", second, first)
	}
	s.principal(t, first.Access) // lives until it expires
	third := s.refresh(t, second.Refresh)
	other := s.login(t, a.Email)

	// Presented a second time, a token ends the session: its newer tokens, access
	// tokens included, stop working.
	s.wantNoRefresh(t, first.Refresh)
	for _, token := range []string{first.Access, second.Access, third.Access} {
		s.wantRefused(t, token)
	}
	for _, token := range []string{first.Refresh, second.Refresh, third.Refresh} {
		s.wantNoRefresh(t, token)
	}
	want := []signal.Event{{Account: a.ID, Type: signal.SessionEnded, Subject: string(first.Session)}}
	if d := cmp.Diff(want, s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.principal(t, other.Access)
	if _, err := s.Sessions.Refresh(ctx, other.Refresh); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestOfManyRefreshesOneWins(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	tokens := func() Tokens { s.register(t, "a@example.com"); return s.login(t, "a@example.com") }()
	var mu sync.Mutex
	var wg sync.WaitGroup
	won := []Tokens{}
	for range 10 {
		wg.Go(func() {
			if got, err := s.Sessions.Refresh(context.Background(), tokens.Refresh); err == nil {
				mu.Lock()
				won = append(won, got)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(won) > 1 {
		t.Fatalf("%d refreshes of one token succeed", len(won))
	}
	for _, got := range won {
		s.wantRefused(t, got.Access)
	}
}

func TestRefreshTokensExpire(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	const day = 24 * time.Hour

	idle := s.login(t, "a@example.com")
	s.clock.forward(30*day + time.Second)
	s.wantNoRefresh(t, idle.Refresh)

	// Each token lives 30 days from its issue, the session 90 days in all.
	tokens := s.login(t, "a@example.com")
	for range 3 {
		s.clock.forward(30*day - time.Minute)
		tokens = s.refresh(t, tokens.Refresh)
	}
	if got := tokens.ExpiresIn; got > 3*time.Minute || got <= 0 {
		t.Errorf("an access token of a session that ends in 3 minutes lives for %v", got)
	}
	s.principal(t, tokens.Access)
	s.clock.forward(3*time.Minute + time.Second)
	s.wantNoRefresh(t, tokens.Refresh)
	s.wantRefused(t, tokens.Access)
}

func TestRefreshRefusesMalformedTokens(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	tokens := s.login(t, "a@example.com")
	_, err := s.Sessions.Refresh(t.Context(), "")
	wantFields(t, err, "refresh_token required")
	for _, token := range []string{"rt_", "x", newRefreshToken(""), tokens.Access, tokens.Refresh + "0",
		tokens.Refresh[:len(tokens.Refresh)-1],
		"rt_" + strings.Repeat("!", 43), strings.ToUpper(tokens.Refresh), strings.Repeat("rt_", 5000)} {
		s.wantNoRefresh(t, token)
	}
	if _, err := s.Sessions.Refresh(t.Context(), tokens.Refresh); err != nil {
		t.Errorf("the right one: %v", err)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a, b := s.register(t, "a@example.com"), s.register(t, "b@example.com")
	first, second, third, foreign := s.login(t, a.Email), s.login(t, a.Email), s.login(t, a.Email), s.login(t, b.Email)
	p := s.principal(t, first.Access)
	for _, tokens := range []Tokens{second, third, foreign} {
		s.principal(t, tokens.Access)
	}
	k, secret := s.key(t, a.ID, "name")
	wantCode(t, s.Sessions.Logout(ctx, signal.Principal{Account: a.ID, Key: k.ID}, false), "jwt_required")

	if err := s.Sessions.Logout(ctx, p, false); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, first.Access)
	s.wantNoRefresh(t, first.Refresh)
	if err := s.Sessions.Logout(ctx, p, false); err != nil {
		t.Errorf("again: %v", err)
	}

	if err := s.Sessions.Logout(ctx, s.principal(t, second.Access), true); err != nil {
		t.Fatal(err)
	}
	for _, tokens := range []Tokens{second, third} {
		s.wantRefused(t, tokens.Access)
		s.wantNoRefresh(t, tokens.Refresh)
	}
	s.principal(t, foreign.Access)
	s.principal(t, secret)   // keys are no sessions
	want := []signal.Event{} // one for each session, independent of clocks
	for _, tokens := range []Tokens{first, second, third} {
		want = append(want, signal.Event{Account: a.ID, Type: signal.SessionEnded, Subject: string(tokens.Session)})
	}
	if d := cmp.Diff(want, s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestALoginTooManyEndsTheOldest(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{MaxSessions: 2})
	a := s.register(t, "a@example.com")
	first, second := s.login(t, a.Email), s.login(t, a.Email)
	s.principal(t, first.Access)
	s.clock.forward(time.Second)
	refreshed := s.refresh(t, first.Refresh)
	third := s.login(t, a.Email)
	s.wantRefused(t, second.Access)
	s.wantNoRefresh(t, second.Refresh)
	s.principal(t, third.Access)
	s.principal(t, refreshed.Access)
	want := []signal.Event{{Account: a.ID, Type: signal.SessionEnded, Subject: string(second.Session)}}
	if d := cmp.Diff(want, s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if n := New(nil, nil, nil, Options{}).Sessions.o.MaxSessions; n != 100 {
		t.Errorf("an account may have %d sessions", n)
	}
}

func TestFailedLoginsLockTheEmail(t *testing.T) {
	t.Parallel()
	for name, email := range map[string]string{"an account's": "a@example.com", "an unknown one": "b@example.com",
		"no address": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prometheus.NewRegistry()
			s := newTestService(t, Options{Metrics: NewMetrics(r)})
			s.register(t, "a@example.com")
			start := time.Now()
			for i, lock := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
				for range 5 {
					_, err := s.Sessions.Login(t.Context(), email, "wrong password")
					wantCode(t, err, "invalid_credentials") // the fifth too
				}
				for range 2 { // the password is not compared
					_, err := s.Sessions.Login(t.Context(), strings.ToUpper(email), goodPassword)
					wantCode(t, err, "account_locked")
					e, _ := errors.AsType[*signal.Error](err)
					if e == nil || e.Kind != signal.KindTooMany || e.RetryAfter > lock ||
						e.RetryAfter < lock-time.Minute-time.Since(start) {
						t.Errorf("lock %d: %+v, want about %v", i+1, e, lock)
					}
				}
				s.clock.forward(lock)
			}
			if n := testutil.ToFloat64(s.Authenticator.metrics.locks); n != 4 {
				t.Errorf("%v locks are counted", n)
			}
			if n := testutil.ToFloat64(s.Authenticator.metrics.failures.WithLabelValues("account_locked")); n != 8 {
				t.Errorf("%v refusals are counted", n)
			}
		})
	}
}

// hangingUp is a store whose client leaves as soon as a wrong password has been compared.
type hangingUp struct {
	Store
	hangUp context.CancelFunc
}

func (s hangingUp) FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules,
	now time.Time) (time.Time, bool, error) {
	s.hangUp()
	return s.Store.FailLogin(ctx, email, r, now)
}

func TestAClientThatHangsUpIsCounted(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	p := s.principal(t, s.login(t, a.Email).Access)
	for name, guess := range map[string]func(context.Context) error{
		"login": func(ctx context.Context) error {
			_, err := s.Sessions.Login(ctx, a.Email, "wrong password")
			return err
		},
		"password": func(ctx context.Context) error {
			return s.Accounts.ChangePassword(ctx, p, "wrong password", "four green hedgehogs")
		},
	} {
		for range 5 {
			ctx, hangUp := context.WithCancel(t.Context())
			s.Locks.store = hangingUp{s.store.Credentials, hangUp}
			wantCode(t, guess(ctx), "invalid_credentials")
		}
		s.Locks.store = s.store.Credentials
		_, err := s.Sessions.Login(t.Context(), a.Email, goodPassword)
		t.Run(name, func(t *testing.T) { wantCode(t, err, "account_locked") })
		if err := s.Locks.Unlock(t.Context(), a.Email); err != nil {
			t.Fatal(err)
		}
	}
}

// leaving is a store whose client leaves as soon as its change is stored.
type leaving struct {
	Store
	leave context.CancelFunc
}

func (s leaving) RevokeKey(ctx context.Context, account signal.AccountID, id signal.KeyID,
	now time.Time) ([]signal.Event, error) {
	defer s.leave()
	return s.Store.RevokeKey(ctx, account, id, now)
}

// The other processes go on serving a revoked key's streams until they are notified.
func TestARevocationIsAnnouncedThoughItsClientLeaves(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	k, _ := s.key(t, a.ID, "name")
	ctx, leave := context.WithCancel(t.Context())
	s.Locks.store = leaving{s.store.Credentials, leave}
	if err := s.Keys.RevokeKey(ctx, a.ID, k.ID); err != nil {
		t.Fatal(err)
	}
	if events := s.log.take(); len(events) != 1 || events[0].Type != signal.KeyRevoked ||
		events[0].Subject != string(k.ID) {
		t.Errorf("events %+v, want the revocation", events)
	}
}

// overtaken is a store in which another change of the password comes first.
type overtaken struct {
	Store
	first func()
}

func (s overtaken) SetPassword(ctx context.Context, id signal.AccountID, hash string, version int64,
	keep signal.SessionID, now time.Time) ([]signal.Event, error) {
	s.first()
	return s.Store.SetPassword(ctx, id, hash, version, keep, now)
}

// A change of the password with the previous password does not undo a change that was stored
// meanwhile, by which an owner may lock out a thief.
func TestAChangeOfThePasswordDoesNotUndoAnother(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	owner, thief := s.principal(t, s.login(t, a.Email).Access), s.principal(t, s.login(t, a.Email).Access)
	quicker := New(s.store.Credentials, s.log, testKeys(), Options{Password: cheap, Now: s.clock.now})
	s.Accounts.store = overtaken{s.store.Credentials, func() {
		if err := quicker.Accounts.ChangePassword(t.Context(), owner, goodPassword, "four green hedgehogs"); err != nil {
			t.Error(err)
		}
	}}
	wantCode(t, s.Accounts.ChangePassword(t.Context(), thief, goodPassword, "five grey wolves run"), "invalid_credentials")
	if _, err := quicker.Sessions.Login(t.Context(), a.Email, "four green hedgehogs"); err != nil {
		t.Errorf("login by the password that was stored first: %v", err)
	}
}

// TestNoPasswordIsComparedWhileLocked takes the only slot for hashes: comparing a
// password would wait for it.
func TestNoPasswordIsComparedWhileLocked(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{HashesAtOnce: 1})
	a := s.register(t, "a@example.com")
	p := s.principal(t, s.login(t, a.Email).Access)
	for range 5 {
		_, err := s.Sessions.Login(t.Context(), a.Email, "wrong password")
		wantCode(t, err, "invalid_credentials")
	}
	if err := s.Sessions.hashes.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.Sessions.Login(ctx, a.Email, goodPassword)
	wantCode(t, err, "account_locked")
	wantCode(t, s.Accounts.ChangePassword(ctx, p, goodPassword, "four green hedgehogs"), "account_locked")
}

func TestLoginClearsTheCount(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	fail := func(n int) {
		t.Helper()
		for range n {
			_, err := s.Sessions.Login(t.Context(), "a@example.com", "wrong password")
			wantCode(t, err, "invalid_credentials")
		}
	}
	fail(4)
	s.login(t, "a@example.com")
	fail(4)
	s.login(t, "a@example.com")
	fail(4)
	s.clock.forward(15*time.Minute + time.Second) // they no longer count
	fail(4)
	s.login(t, "a@example.com")
	fail(5)
	_, err := s.Sessions.Login(t.Context(), "a@example.com", goodPassword)
	wantCode(t, err, "account_locked")
	if err := s.Locks.Unlock(t.Context(), " A@EXAMPLE.com"); err != nil {
		t.Fatal(err)
	}
	s.login(t, "a@example.com")
}

func TestLockSettings(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{Lock: credential.LockRules{After: 2, Duration: time.Minute}})
	s.register(t, "a@example.com")
	for range 2 {
		_, err := s.Sessions.Login(t.Context(), "a@example.com", "wrong password")
		wantCode(t, err, "invalid_credentials")
	}
	_, err := s.Sessions.Login(t.Context(), "a@example.com", goodPassword)
	wantCode(t, err, "account_locked")
	s.clock.forward(time.Minute)
	s.login(t, "a@example.com")
}

// TestGuessesAtOnce makes many guesses before the first is counted: only five may be
// answered, even if a later one is right.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{HashesAtOnce: 50})
	s.register(t, "a@example.com")
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := map[string]int{}
	for range 40 {
		wg.Go(func() {
			_, err := s.Sessions.Login(context.Background(), "a@example.com", "wrong password")
			e, _ := errors.AsType[*signal.Error](err)
			mu.Lock()
			defer mu.Unlock()
			answers[e.Code]++
		})
	}
	wg.Wait()
	if d := cmp.Diff(map[string]int{"invalid_credentials": 5, "account_locked": 35}, answers); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
}

func TestManyRightLoginsAtOnceLockNothing(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.register(t, "a@example.com")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Sessions.Login(context.Background(), "a@example.com", goodPassword); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newTestService(t, Options{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	first := s.login(t, a.Email)
	second := s.refresh(t, first.Refresh)
	_, secret := s.key(t, a.ID, "name")
	s.principal(t, secret)
	s.log.fail(errors.New("away"))
	if _, err := s.Sessions.Refresh(ctx, first.Refresh); err == nil {
		t.Error("reuse is accepted")
	}
	for range 6 {
		s.Sessions.Login(ctx, a.Email, "wrong password")
	}
	s.Authenticator.storeUses(ctx)
	s.server.Kill()
	s.Authenticator.storeUses(ctx)
	s.Sessions.Login(ctx, a.Email, goodPassword)
	s.announcer.sweep(ctx)
	if out.Len() == 0 {
		t.Error("nothing is logged")
	}
	for _, text := range []string{secret, first.Access, first.Refresh, second.Access, second.Refresh, goodPassword,
		"wrong password", a.Email} {
		if strings.Contains(out.String(), text) {
			t.Errorf("the log shows %q:\n%s", text, out.String())
		}
	}
}

func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	tokens := s.login(t, a.Email)
	_, secret := s.key(t, a.ID, "name")
	c := s.server.Client()
	var all strings.Builder
	for _, key := range c.Keys(ctx, "*").Val() {
		all.WriteString(key + "\n" + c.Dump(ctx, key).Val() + "\n")
		for field, value := range c.HGetAll(ctx, key).Val() {
			all.WriteString(field + "=" + value + "\n")
		}
	}
	for _, text := range []string{goodPassword, tokens.Access, tokens.Refresh, tokens.Refresh[3:24], secret, secret[8:]} {
		if strings.Contains(all.String(), text) {
			t.Errorf("Redis holds %q", text)
		}
	}
	if !strings.Contains(all.String(), credential.DigestOf(secret).String()) ||
		!strings.Contains(all.String(), credential.DigestOf(tokens.Refresh).String()) {
		t.Error("Redis does not hold the digests")
	}
}

func TestCredentialsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	tokens := s.login(t, a.Email)
	s.server.Kill()
	_, login := s.Sessions.Login(ctx, a.Email, goodPassword)
	_, refresh := s.Sessions.Refresh(ctx, tokens.Refresh)
	_, access := s.Authenticator.Authenticate(ctx, tokens.Access)
	_, key := s.Authenticator.Authenticate(ctx, newKeySecret())
	for name, err := range map[string]error{"login": login, "refresh": refresh, "access token": access, "key": key,
		"logout": s.Sessions.Logout(ctx, signal.Principal{Account: a.ID, Session: tokens.Session}, false)} {
		if signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("%s: %v, want KindUnavailable", name, err)
		}
	}
}
