package credentials

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

func TestCreateKey(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	hour := int64(3600)
	k, secret, err := s.Keys.CreateKey(ctx, a.ID, "  deploy bot ",
		[]string{"signals:read", "agents:run", "signals:read"}, &hour)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^ask_[0-9A-Za-z]{46}$`).MatchString(secret) || !credential.IsKey(secret) {
		t.Errorf("secret %q", secret)
	}
	want := credential.APIKey{ID: k.ID, Account: a.ID, Name: "deploy bot", Prefix: secret[:8], CreatedAt: k.CreatedAt,
		ExpiresAt: k.CreatedAt.Add(time.Hour), Scopes: signal.ScopesOf(signal.AgentsRun, signal.SignalsRead)}
	if d := cmp.Diff(want, k); d != "" || !strings.HasPrefix(string(k.ID), "key_") {
		t.Errorf("%s (-want +got):\n%s", k.ID, d)
	}
	if d := cmp.Diff([]signal.Scope{signal.AgentsRun, signal.SignalsRead}, k.Scopes.List()); d != "" {
		t.Errorf("scopes are not in the order of the specification:\n%s", d)
	}
	p := s.principal(t, secret)
	if d := cmp.Diff(signal.Principal{Account: a.ID, Key: k.ID, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt}, p); d != "" {
		t.Errorf("principal (-want +got):\n%s", d)
	}
	wantCode(t, s.Authenticator.RequireJWT(p), "jwt_required")

	list, total, err := s.Keys.List(ctx, a.ID, 25, 0)
	if d := cmp.Diff([]credential.APIKey{k}, list); err != nil || total != 1 || d != "" {
		t.Errorf("%d, %v (-want +got):\n%s", total, err, d)
	}
	all, _, err := s.Keys.CreateKey(ctx, a.ID, "all", nil, nil)
	if err != nil || all.Scopes != signal.AllScopes || !all.ExpiresAt.IsZero() {
		t.Errorf("defaults: %+v, %v", all, err)
	}
	if list, total, err = s.Keys.List(ctx, a.ID, 1, 1); err != nil || total != 2 || len(list) != 1 || list[0].ID != k.ID {
		t.Errorf("second page: %+v, %d, %v", list, total, err)
	}
	if list, total, err = s.Keys.List(ctx, a.ID, 1, 7); err != nil || total != 2 || list == nil || len(list) != 0 {
		t.Errorf("past the end: %+v, %d, %v", list, total, err)
	}
}

func TestKeyValuesAreChecked(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	n := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		name    string
		scopes  []string
		expires *int64
		want    []string
	}{
		"no name":        {"", nil, nil, []string{"name required"}},
		"spaces":         {" \t", nil, nil, []string{"name too_short"}},
		"100 characters": {" " + strings.Repeat("ä", 100) + " ", nil, nil, nil},
		"101 characters": {strings.Repeat("ä", 101), nil, nil, []string{"name too_long"}},
		"no scopes":      {"a", []string{}, nil, []string{"scopes too_short"}},
		"unknown scopes": {"a", []string{"agents:read", "admin", ""}, nil,
			[]string{"scopes/1 invalid_value", "scopes/2 invalid_value"}},
		"0 seconds":      {"a", nil, n(0), []string{"expires_in out_of_range"}},
		"-1 seconds":     {"a", nil, n(-1), []string{"expires_in out_of_range"}},
		"1 second":       {"b", nil, n(1), nil},
		"ten years":      {"c", nil, n(315_360_000), nil},
		"over ten years": {"a", nil, n(315_360_001), []string{"expires_in out_of_range"}},
		"all at once": {"", []string{"x"}, n(0), []string{"scopes/0 invalid_value", "name required",
			"expires_in out_of_range"}},
	} {
		_, _, err := s.Keys.CreateKey(t.Context(), a.ID, c.name, c.scopes, c.expires)
		if c.want == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != nil {
			t.Run(name, func(t *testing.T) { wantFields(t, err, c.want...) })
		}
	}
}

func TestKeyNamesAreUniqueAmongKeysNotRevoked(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a, b := s.register(t, "a@example.com"), s.register(t, "b@example.com")
	second := int64(1)
	k, secret, err := s.Keys.CreateKey(ctx, a.ID, "name", nil, &second)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Keys.CreateKey(ctx, a.ID, " name ", nil, nil)
	wantCode(t, err, "name_taken")
	if _, _, err := s.Keys.CreateKey(ctx, b.ID, "name", nil, nil); err != nil {
		t.Errorf("another account: %v", err)
	}
	if _, _, err := s.Keys.CreateKey(ctx, a.ID, "Name", nil, nil); err != nil {
		t.Errorf("another name: %v", err)
	}
	s.principal(t, secret)
	s.clock.forward(time.Second) // it stops being valid at expires_at and keeps its name
	s.wantRefused(t, secret)
	_, _, err = s.Keys.CreateKey(ctx, a.ID, "name", nil, nil)
	wantCode(t, err, "name_taken")
	if err := s.Keys.RevokeKey(ctx, a.ID, k.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Keys.CreateKey(ctx, a.ID, "name", nil, nil); err != nil {
		t.Errorf("after revoking: %v", err)
	}
}

func TestRevokeKey(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a, b := s.register(t, "a@example.com"), s.register(t, "b@example.com")
	k, secret := s.key(t, a.ID, "one")
	_, other := s.key(t, a.ID, "two")
	s.principal(t, secret)
	s.principal(t, other)
	wantCode(t, s.Keys.RevokeKey(ctx, b.ID, k.ID), "not_found")
	s.principal(t, secret)
	if err := s.Keys.RevokeKey(ctx, a.ID, k.ID); err != nil {
		t.Fatal(err)
	}
	s.wantRefused(t, secret)
	s.principal(t, other)
	wantCode(t, s.Keys.RevokeKey(ctx, a.ID, k.ID), "not_found")
	if d := cmp.Diff([]signal.Event{{Account: a.ID, Type: signal.KeyRevoked, Subject: string(k.ID)}},
		s.log.take()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestAtMost100Keys(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	for i := range 100 {
		s.key(t, a.ID, fmt.Sprint(i))
	}
	_, _, err := s.Keys.CreateKey(ctx, a.ID, "one too many", nil, nil)
	wantCode(t, err, "limit_reached")
	_, _, err = s.Keys.CreateKey(ctx, "acc_none", "name", nil, nil)
	wantCode(t, err, "not_found")
}

func TestLastUseIsListedInMinutes(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	ctx := t.Context()
	a := s.register(t, "a@example.com")
	_, secret := s.key(t, a.ID, "name")
	s.principal(t, secret)
	used := s.clock.now()
	s.Authenticator.storeUses(ctx)
	list, _, err := s.Keys.List(ctx, a.ID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := list[0].LastUsedAt; got != got.Truncate(time.Minute) || used.Sub(got) < 0 ||
		used.Sub(got) > 2*time.Minute {
		t.Errorf("used at %v, listed as %v", used, got)
	}
}

func TestKeysAreListedByPages(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	for _, name := range []string{"1", "2", "3"} {
		s.key(t, a.ID, name)
	}
	for _, c := range []struct{ limit, offset, want int }{{2, 0, 2}, {2, 2, 1}, {2, 3, 0}, {2, 9, 0}, {10, 0, 3}} {
		if keys, total, err := s.Keys.List(t.Context(), a.ID, c.limit, c.offset); err != nil ||
			len(keys) != c.want || total != 3 {
			t.Errorf("limit %d, offset %d: %d keys of %d, %v; want %d of 3", c.limit, c.offset, len(keys),
				total, err, c.want)
		}
	}
}
