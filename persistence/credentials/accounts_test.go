package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestCreateAccountClaimsItsEmail(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com")

	if err := s.CreateAccount(ctx, a, "hash"); err != nil {
		t.Errorf("the same call again: %v", err)
	}
	other := credential.Account{ID: signal.NewAccountID(), Email: a.Email, CreatedAt: nowMS()}
	wantError(t, s.CreateAccount(ctx, other, "hash"), signal.KindConflict, "email_taken")
	_, _, err := s.AccountByID(ctx, other.ID)
	wantError(t, err, signal.KindNotFound, "not_found")

	for name, read := range map[string]func() (credential.Account, credential.Password, error){
		"by id":    func() (credential.Account, credential.Password, error) { return s.AccountByID(ctx, a.ID) },
		"by email": func() (credential.Account, credential.Password, error) { return s.AccountByEmail(ctx, a.Email) },
	} {
		got, password, err := read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantEqual(t, name, nil, a, got)
		wantEqual(t, name, nil, credential.Password{Hash: "hash", Version: 1}, password)
	}
	_, _, err = s.AccountByEmail(ctx, "b@example.com")
	wantError(t, err, signal.KindNotFound, "not_found")
}

func TestOneOfManyGetsTheEmail(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	var created atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a := credential.Account{ID: signal.NewAccountID(), Email: "a@example.com", CreatedAt: nowMS()}
			if err := s.CreateAccount(context.Background(), a, "hash"); err == nil {
				created.Add(1)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != 1 {
		t.Errorf("%d accounts with one email", n)
	}
}

func TestAccountsAreListedOldestFirst(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	var want []credential.Account
	for i := range 5 {
		a := credential.Account{ID: signal.NewAccountID(), Email: fmt.Sprintf("%d@example.com", i),
			CreatedAt: nowMS().Add(time.Duration(i) * time.Second)}
		if err := s.CreateAccount(t.Context(), a, "hash"); err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	for _, page := range []struct {
		limit, offset int
		want          []credential.Account
	}{{2, 0, want[:2]}, {2, 4, want[4:]}, {10, 0, want}, {10, 9, []credential.Account{}}} {
		got, total, err := s.Accounts(t.Context(), page.limit, page.offset)
		if err != nil || total != 5 {
			t.Fatalf("total %d, %v", total, err)
		}
		if d := cmp.Diff(page.want, got); d != "" {
			t.Errorf("limit %d offset %d (-want +got):\n%s", page.limit, page.offset, d)
		}
	}
}

func TestSetPasswordEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	a, b := addAccount(t, s, "a@example.com"), addAccount(t, s, "b@example.com")
	kept, foreign := addSession(t, s, a.ID), addSession(t, s, b.ID)
	first, second := addSession(t, s, a.ID), addSession(t, s, a.ID)

	_, err := s.SetPassword(ctx, a.ID, "new", 7, kept.ID, nowMS())
	wantError(t, err, signal.KindConflict, "conflict")
	_, err = s.SetPassword(ctx, signal.NewAccountID(), "new", 1, "", nowMS())
	wantError(t, err, signal.KindNotFound, "not_found")
	if len(outboxOf(t, s)) != 0 {
		t.Error("a refused change is announced")
	}

	events, err := s.SetPassword(ctx, a.ID, "new", 1, kept.ID, nowMS())
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, e := range events {
		subjects = append(subjects, e.Subject)
	}
	slices.Sort(subjects)
	want := []string{string(first.ID), string(second.ID)}
	slices.Sort(want)
	wantEqual(t, "ended", nil, want, subjects)
	if n := len(outboxOf(t, s)); n != 2 {
		t.Errorf("%d announcements", n)
	}
	if err := s.Settle(ctx, events); err != nil {
		t.Fatal(err)
	}
	if n := len(outboxOf(t, s)); n != 0 {
		t.Errorf("%d announcements after settling", n)
	}
	for _, n := range []credential.Session{kept, foreign} {
		if _, err := s.SessionByID(ctx, n.ID); err != nil {
			t.Errorf("a session that stays: %v", err)
		}
	}
	for _, n := range []credential.Session{first, second} {
		_, err := s.SessionByID(ctx, n.ID)
		wantError(t, err, signal.KindNotFound, "not_found")
		_, err = s.SessionByLocator(ctx, n.Locator)
		wantError(t, err, signal.KindNotFound, "not_found")
	}
	_, p, err := s.AccountByID(ctx, a.ID)
	wantEqual(t, "password", err, credential.Password{Hash: "new", Version: 2}, p)

	// A login that compared the old password comes too late.
	late := credential.Session{ID: signal.NewSessionIDAt(time.Now()), Account: a.ID, KeepUntil: nowMS().Add(time.Hour)}
	_, _, err = s.CreateSession(ctx, late, 1, credential.DigestOf("x"), 100, nowMS())
	wantError(t, err, signal.KindConflict, "conflict")
}

func TestRehashKeepsTheVersion(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com")
	if err := s.Rehash(ctx, a.ID, "other", "never"); err != nil {
		t.Fatal(err)
	}
	if _, p, err := s.AccountByID(ctx, a.ID); err != nil || p.Hash != "hash" {
		t.Errorf("a password that was changed meanwhile is %q after rehashing its predecessor, %v", p.Hash, err)
	}
	if err := s.Rehash(ctx, a.ID, "hash", "better"); err != nil {
		t.Fatal(err)
	}
	deleted := signal.NewAccountID()
	if err := s.Rehash(ctx, deleted, "hash", "better"); err != nil {
		t.Fatal(err)
	}
	if n := server.Client().Exists(ctx, s.AccountKey(deleted)).Val(); n != 0 {
		t.Error("rehashing has restored a deleted account")
	}
	_, p, err := s.AccountByID(ctx, a.ID)
	wantEqual(t, "password", err, credential.Password{Hash: "better", Version: 1}, p)
}

func TestDeleteAccountLeavesNothing(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	a, b := addAccount(t, s, "a@example.com"), addAccount(t, s, "b@example.com")
	addSession(t, s, a.ID)
	addSession(t, s, a.ID)
	addKey(t, s, a.ID, "one")
	addKey(t, s, a.ID, "two")
	stays := addSession(t, s, b.ID)
	_, staysKey := addKey(t, s, b.ID, "one")
	failTimes(t, s, credential.DigestOf(a.Email), 1, nowMS())

	events, err := s.DeleteAccount(ctx, a.ID, nowMS())
	if err != nil {
		t.Fatal(err)
	}
	want := []signal.Event{{Account: a.ID, Type: signal.AccountDeleted}}
	if d := cmp.Diff(want, outboxOf(t, s)); d != "" || len(events) != 1 {
		t.Errorf("announced (-want +got):\n%s", d)
	}
	if err := s.Settle(ctx, events); err != nil {
		t.Fatal(err)
	}
	left, err := server.Client().Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(left)
	wantLeft := []string{s.AccountKey(b.ID), s.AccountsKey(), s.EmailKey(b.Email),
		s.APIKeyKey(staysKey.String()), s.APIKeysOfKey(b.ID), s.SessionsOfKey(b.ID),
		s.RefreshKey(stays.Locator.String()), s.SessionKey(stays.ID)}
	slices.Sort(wantLeft)
	wantEqual(t, "keys left", nil, wantLeft, left)
	if list, total, err := s.Accounts(ctx, 10, 0); len(list) != 1 || total != 1 || err != nil {
		t.Errorf("%d of %d accounts are listed, %v", len(list), total, err)
	}
	_, err = s.DeleteAccount(ctx, a.ID, nowMS())
	wantError(t, err, signal.KindNotFound, "not_found")
	addAccount(t, s, "a@example.com") // the email is free again
	late := credential.APIKey{ID: signal.NewKeyID(), Account: a.ID, Name: "late"}
	err = s.CreateKey(ctx, late, credential.DigestOf("late"), 100)
	wantError(t, err, signal.KindNotFound, "not_found")
}

func TestOutboxPostponesUnreadableEntries(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com")
	n := addSession(t, s, a.ID)
	unreadable := redis.Z{Score: 1000, Member: "9 something else"}
	if err := server.Client().ZAdd(ctx, s.OutboxKey(), unreadable).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndSessions(ctx, a.ID, nowMS()); err != nil {
		t.Fatal(err)
	}
	want := []signal.Event{{Account: a.ID, Type: signal.SessionEnded, Subject: string(n.ID)}}
	for range 2 {
		wantEqual(t, "outbox", nil, want, outboxOf(t, s))
	}
	storetest.WantPostponed(t, s.RDB, s.OutboxKey(), "9 something else", time.Now())
	if early, err := s.Unsettled(ctx, time.Now().Add(-time.Minute), 10); err != nil || len(early) != 0 {
		t.Errorf("announcements of the last minute are returned too early: %v, %v", early, err)
	}
}

func TestCredentialsWithoutRedis(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	server.Kill()
	ctx := t.Context()
	for name, err := range map[string]error{
		"account": func() error { _, _, err := s.AccountByEmail(ctx, "a@example.com"); return err }(),
		"session": func() error { _, err := s.SessionByID(ctx, "ses_1"); return err }(),
		"key":     func() error { _, err := s.KeyByDigest(ctx, credential.Digest{}); return err }(),
		"lock":    func() error { _, err := s.LockedUntil(ctx, credential.Digest{}); return err }(),
		"create":  s.CreateAccount(ctx, credential.Account{ID: "acc_1", Email: "a@example.com"}, "hash"),
	} {
		if signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("%s: %v, want KindUnavailable", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hash") {
			t.Errorf("%s: the error shows an argument: %v", name, err)
		}
	}
}

// TestCredentialsInProcess runs every script on the in-process Redis of the demo, which has
// another implementation of Lua.
func TestCredentialsInProcess(t *testing.T) {
	t.Parallel()
	s := openStore(t, redisclient.Options{URL: "redis://" + miniredis.RunT(t).Addr()})
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com")
	n, other := addSession(t, s, a.ID), addSession(t, s, a.ID)
	second, third := nextOf(n, "second"), nextOf(n, "third")
	if events, err := s.RotateSession(ctx, second, n.Refresh, nowMS()); err != nil || len(events) != 0 {
		t.Errorf("rotate: %v, %v", events, err)
	}
	if events, err := s.RotateSession(ctx, third, n.Refresh, nowMS()); err != nil || len(events) != 1 {
		t.Errorf("reuse: %v, %v", events, err)
	}
	events, err := s.SetPassword(ctx, a.ID, "new", 1, "", nowMS())
	if err != nil || len(events) != 1 || events[0].Subject != string(other.ID) {
		t.Errorf("set password: %v, %v", events, err)
	}
	if err := s.Rehash(ctx, a.ID, "new", "newer"); err != nil {
		t.Error(err)
	}
	k, digest := addKey(t, s, a.ID, "name")
	again := credential.APIKey{ID: "key_2", Account: a.ID, Name: "name"}
	wantError(t, s.CreateKey(ctx, again, credential.DigestOf("x"), 100), signal.KindConflict, "name_taken")
	if err := s.NoteKeyUses(ctx, map[credential.Digest]time.Time{digest: nowMS()}); err != nil {
		t.Error(err)
	}
	if got, err := s.KeyByDigest(ctx, digest); err != nil || got.LastUsedAt.IsZero() {
		t.Errorf("key: %+v, %v", got, err)
	}
	if events, err := s.RevokeKey(ctx, a.ID, k.ID, nowMS()); err != nil || len(events) != 1 {
		t.Errorf("revoke: %v, %v", events, err)
	}
	now, email := nowMS(), credential.DigestOf(a.Email)
	for _, want := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour} {
		until, locked := failTimes(t, s, email, 5, now)
		if !locked || until.Sub(now) != want {
			t.Errorf("lock lasts %v, want %v", until.Sub(now), want)
		}
		now = until
	}
	if events, err := s.DeleteAccount(ctx, a.ID, nowMS()); err != nil || len(events) != 1 {
		t.Errorf("delete: %v, %v", events, err)
	}
	if got := len(outboxOf(t, s)); got != 4 {
		t.Errorf("%d announcements, want 4", got)
	}
}
