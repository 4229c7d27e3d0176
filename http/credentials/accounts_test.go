package credentials

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestCreateAccount(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "  Someone@Example.COM ")
	if a.Email != "someone@example.com" || !strings.HasPrefix(string(a.ID), "acc_") {
		t.Errorf("%+v", a)
	}
	got, err := s.Accounts.Account(ctx, a.ID)
	if d := cmp.Diff(a, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, err := s.Accounts.AccountByEmail(ctx, "SOMEONE@example.com"); err != nil || got.ID != a.ID {
		t.Errorf("by email: %+v, %v", got, err)
	}
	_, err = s.Accounts.CreateAccount(ctx, "someone@EXAMPLE.com", goodPassword)
	wantCode(t, err, "email_taken")
	if list, total, err := s.Accounts.List(ctx, 10, 0); err != nil || total != 1 || len(list) != 1 {
		t.Errorf("%v, %d, %v", list, total, err)
	}
	_, err = s.Accounts.Account(ctx, "acc_none")
	wantCode(t, err, "not_found")
}

func TestEmailsAndPasswordsAreChecked(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	const email = "someone@example.com"
	long := strings.Repeat("a", 242) + "@example.com" // 254 characters
	for name, c := range map[string]struct {
		email, password string
		want            []string
	}{
		"nothing":    {"", "", []string{"email required", "password required"}},
		"spaces":     {"  ", "            ", []string{"email required", "password invalid_value"}},
		"no address": {"someone", goodPassword, []string{"email invalid_format"}},
		"two addresses": {"a@example.com, b@example.com", goodPassword,
			[]string{"email invalid_format"}},
		"name and address":             {"Some One <a@example.com>", goodPassword, []string{"email invalid_format"}},
		"quoted":                       {`"a b"@example.com`, goodPassword, []string{"email invalid_format"}},
		"line end":                     {"a@example.com\nb", goodPassword, []string{"email invalid_format"}},
		"254 characters":               {long, goodPassword, nil},
		"255 characters":               {"a" + long, goodPassword, []string{"email too_long"}},
		"11 characters":                {email, "12345abcdef", []string{"password too_short"}},
		"12 characters, not bytes":     {email, "äöüäöüßßßäö", []string{"password too_short"}},
		"12 characters, any":           {"b@example.com", "äö ü\x00\tß漢字🙂xy", nil},
		"128 characters":               {"c@example.com", strings.Repeat("äb", 64), nil},
		"129 characters":               {email, strings.Repeat("äb", 64) + "c", []string{"password too_long"}},
		"the email":                    {email, email, []string{"password invalid_value"}},
		"the email in capitals":        {email, " SOMEONE@example.com", []string{"password invalid_value"}},
		"another email":                {"d@example.com", email, nil},
		"common":                       {email, "password1234", []string{"password invalid_value"}},
		"common in capitals":           {email, "PASSWORD1234", []string{"password invalid_value"}},
		"common with replaced letters": {email, "P@$$w0rd1234", []string{"password invalid_value"}},
		"keyboard":                     {email, "qwertyuiop12", []string{"password invalid_value"}},
		"one character":                {email, "eeeeeeeeeeeeeeeeeeeee", []string{"password invalid_value"}},
		"one character in both cases":  {email, "aAaAaAaAaAaAaA", []string{"password invalid_value"}},
	} {
		_, err := s.Accounts.CreateAccount(t.Context(), c.email, c.password)
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		t.Run(name, func(t *testing.T) { wantFields(t, err, c.want...) })
		if err != nil && c.password != "" && strings.TrimSpace(c.password) != "" &&
			strings.Contains(err.Error(), c.password) {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	if n := len(commonPasswords); n < 200 {
		t.Errorf("%d common passwords, want at least 200", n)
	}
	for p := range commonPasswords {
		if len(p) < MinPassword {
			t.Errorf("%q is too short to be chosen anyway", p)
		}
	}
	for _, p := range []string{goodPassword, "correct horse", "Vn7-kq2.Lm9xP"} {
		if isCommon(p) {
			t.Errorf("%q counts as common", p)
		}
	}
}

func TestPasswordsAreStoredAsDecided(t *testing.T) {
	t.Parallel()
	s := New(nil, nil, nil, Options{})
	want := argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	text, err := s.Sessions.hashes.hash(t.Context(), goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	for name, hash := range map[string]string{"hash": text, "dummy": s.Sessions.hashes.dummy} {
		got, salt, key, err := argon2id.DecodeHash(hash)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, *got); d != "" || len(salt) != 16 || len(key) != 32 {
			t.Errorf("%s: salt of %d, key of %d bytes (-want +got):\n%s", name, len(salt), len(key), d)
		}
	}
	if !strings.HasPrefix(text, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash is %s", text)
	}
}

func TestHashesWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	h := newHasher(cheap, 2, 1)
	for range 2 {
		if err := h.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"hash":    func() error { _, err := h.hash(ctx, "x"); return err }(),
		"compare": func() error { _, _, err := h.compare(ctx, "x", ""); return err }(),
	} {
		if signal.KindOf(err) != signal.KindUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("%s without a free turn: %v", name, err)
		}
	}
	for range 2 {
		h.release()
	}
	if _, err := h.hash(t.Context(), "x"); err != nil {
		t.Errorf("with a free turn: %v", err)
	}
	if len(h.slots) != 0 || len(h.places) != 0 {
		t.Errorf("%d turns and %d places are not given back", len(h.slots), len(h.places))
	}
}

// TestTheQueueOfPasswordsIsLimited fills the only slot and the queue. Further logins
// are refused at once, without a hash, and not counted as guesses.
func TestTheQueueOfPasswordsIsLimited(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{HashesAtOnce: 1, HashQueue: 2})
	a := s.register(t, "a@example.com")
	p := s.principal(t, s.login(t, a.Email).Access)
	if err := s.Sessions.hashes.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := s.Sessions.Login(t.Context(), a.Email, goodPassword); err != nil {
				t.Errorf("a login that waited: %v", err)
			}
		})
	}
	for start := time.Now(); len(s.Sessions.hashes.places) < 3; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the logins do not wait")
		}
	}
	for range 6 { // more than lock an email
		_, login := s.Sessions.Login(t.Context(), a.Email, "wrong password")
		_, unknown := s.Sessions.Login(t.Context(), "b@example.com", goodPassword)
		_, register := s.Accounts.CreateAccount(t.Context(), "c@example.com", goodPassword)
		for name, err := range map[string]error{"login": login, "unknown email": unknown, "register": register,
			"password": s.Accounts.ChangePassword(t.Context(), p, goodPassword, "four green hedgehogs")} {
			e, _ := errors.AsType[*signal.Error](err)
			if e == nil || e.Kind != signal.KindUnavailable || e.Code != "unavailable" || e.RetryAfter <= 0 {
				t.Errorf("%s: %+v, want unavailable with Retry-After", name, err)
			}
		}
	}
	s.Sessions.hashes.release()
	wg.Wait()
	s.login(t, a.Email)
}

func TestHashingLeavesACore(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	for n, want := range map[int]int{1: 1, 2: 1, 8: 7} {
		runtime.GOMAXPROCS(n)
		h := New(nil, nil, nil, Options{}).Sessions.hashes
		if cap(h.slots) != want || cap(h.places) != want+100 {
			t.Errorf("%d cores: %d hashes at once, %d with those that wait", n, cap(h.slots), cap(h.places))
		}
	}
}

func TestLoginRehashesWhenTheSettingsChanged(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	first := s.login(t, "a@example.com")
	stored := func() string {
		_, p, err := s.store.Credentials.AccountByID(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return p.Hash
	}
	before := stored()
	better := cheap
	better.Iterations = 2
	s.Sessions.hashes = newHasher(better, 2, 2)
	s.login(t, "a@example.com")
	after := stored()
	if after == before || !strings.Contains(after, "m=8,t=2,p=1") {
		t.Errorf("hash %s became %s", before, after)
	}
	s.login(t, "a@example.com")
	if stored() != after {
		t.Error("a hash that is up to date is made again")
	}
	s.principal(t, first.Access) // the password is the same, so no session ends
}

func TestChangePasswordEndsAllOtherSessions(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	own, other := s.login(t, a.Email), s.login(t, a.Email)
	p := s.principal(t, own.Access)
	s.principal(t, other.Access)
	const next = "four green hedgehogs"

	wantFields(t, s.Accounts.ChangePassword(ctx, p, "", ""), "current_password required", "new_password required")
	wantFields(t, s.Accounts.ChangePassword(ctx, p, goodPassword, "short"), "new_password too_short")
	wantFields(t, s.Accounts.ChangePassword(ctx, p, goodPassword, a.Email), "new_password invalid_value")
	wantCode(t, s.Accounts.ChangePassword(ctx, p, "wrong password", next), "invalid_credentials")
	wantCode(t, s.Accounts.ChangePassword(ctx, signal.Principal{Account: a.ID, Key: "key_1"}, goodPassword, next),
		"jwt_required")
	s.principal(t, other.Access)

	if err := s.Accounts.ChangePassword(ctx, p, goodPassword, next); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, other.Access)
	s.wantNoRefresh(t, other.Refresh)
	s.principal(t, own.Access)
	if _, err := s.Sessions.Refresh(ctx, own.Refresh); err != nil {
		t.Errorf("the own session: %v", err)
	}
	want := []signal.Event{{Account: a.ID, Type: signal.SessionEnded, Subject: string(other.Session)}}
	if d := cmp.Diff(want, s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	_, err := s.Sessions.Login(ctx, a.Email, goodPassword)
	wantCode(t, err, "invalid_credentials")
	if _, err := s.Sessions.Login(ctx, a.Email, next); err != nil {
		t.Errorf("the new password: %v", err)
	}
}

func TestWrongCurrentPasswordLocks(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	p := s.principal(t, s.login(t, a.Email).Access)
	for range 5 {
		wantCode(t, s.Accounts.ChangePassword(t.Context(), p, "wrong password", "four green hedgehogs"), "invalid_credentials")
	}
	wantCode(t, s.Accounts.ChangePassword(t.Context(), p, goodPassword, "four green hedgehogs"), "account_locked")
}

func TestSetPasswordEndsAllSessions(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	first, second := s.login(t, a.Email), s.login(t, a.Email)
	s.principal(t, first.Access)
	wantFields(t, s.Accounts.SetPassword(ctx, a.ID, "short"), "password too_short")
	wantCode(t, s.Accounts.SetPassword(ctx, "acc_none", "four green hedgehogs"), "not_found")
	if err := s.Accounts.SetPassword(ctx, a.ID, "four green hedgehogs"); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, first.Access)
	s.wantRefused(t, second.Access)
	if got := s.log.take(); len(got) != 2 {
		t.Errorf("events %+v, want two", got)
	}
	if _, err := s.Sessions.Login(ctx, a.Email, "four green hedgehogs"); err != nil {
		t.Error(err)
	}
}

func TestDeleteAccountEndsEverything(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a, b := s.register(t, "a@example.com"), s.register(t, "b@example.com")
	tokens, others := s.login(t, a.Email), s.login(t, b.Email)
	_, secret := s.key(t, a.ID, "name")
	for _, token := range []string{tokens.Access, others.Access, secret} {
		s.principal(t, token)
	}
	if err := s.Accounts.DeleteAccount(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, tokens.Access)
	s.wantRefused(t, secret)
	s.wantNoRefresh(t, tokens.Refresh)
	_, err := s.Sessions.Login(ctx, a.Email, goodPassword)
	wantCode(t, err, "invalid_credentials")
	s.principal(t, others.Access)
	if d := cmp.Diff([]signal.Event{{Account: a.ID, Type: signal.AccountDeleted}}, s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	wantCode(t, s.Accounts.DeleteAccount(ctx, a.ID), "not_found")
	if again := s.register(t, a.Email); again.ID == a.ID {
		t.Error("the new account has the identifier of the old one")
	}
}

func TestAppendThatFailsIsMadeUpFor(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	k, secret := s.key(t, a.ID, "name")
	s.principal(t, secret)
	s.log.fail(errors.New("away"))
	if err := s.Keys.RevokeKey(ctx, a.ID, k.ID); err != nil {
		t.Errorf("the key is revoked, though others are notified late: %v", err)
	}
	s.wantRefused(t, secret)
	s.announcer.sweep(ctx)
	s.log.fail(nil)
	s.announcer.sweep(ctx)
	if got := s.log.take(); len(got) != 0 {
		t.Errorf("an announcement that its maker may still append is appended: %+v", got)
	}
	s.clock.forward(sweepAge + time.Second)
	s.announcer.sweep(ctx)
	s.announcer.sweep(ctx)
	if d := cmp.Diff([]signal.Event{{Account: a.ID, Type: signal.KeyRevoked, Subject: string(k.ID)}},
		s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
