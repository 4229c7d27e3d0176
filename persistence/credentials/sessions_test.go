package credentials

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestSessionIsReadAsWritten(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
	for name, read := range map[string]func() (credential.Session, error){
		"by id":      func() (credential.Session, error) { return s.SessionByID(t.Context(), n.ID) },
		"by locator": func() (credential.Session, error) { return s.SessionByLocator(t.Context(), n.Locator) },
	} {
		got, err := read()
		wantEqual(t, name, err, n, got)
	}
	wantKept(t, server, n)
}

// wantKept fails unless everything that is stored of a session lasts until its KeepUntil.
func wantKept(t *testing.T, server *redistest.Server, n credential.Session) {
	t.Helper()
	c, want := server.Client(), n.KeepUntil.UnixMilli()
	for _, key := range []string{redisclient.NewKeys(1).SessionKey(n.ID), redisclient.NewKeys(1).RefreshKey(n.Locator.String())} {
		if got := c.PExpireTime(t.Context(), key).Val().Milliseconds(); got != want {
			t.Errorf("%s expires at %d, want %d", key, got, want)
		}
	}
	if got := int64(c.ZScore(t.Context(), redisclient.NewKeys(1).SessionsOfKey(n.Account), string(n.ID)).Val()); got != want {
		t.Errorf("the index keeps it until %d, want %d", got, want)
	}
}

func TestRotateSession(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
	second := nextOf(n, "second")
	rotate := func(next credential.Session, presented credential.Digest) {
		t.Helper()
		if events, err := s.RotateSession(ctx, next, presented, nowMS()); err != nil || len(events) != 0 {
			t.Fatalf("rotate: %v, %v", events, err)
		}
	}
	rotate(second, n.Refresh)
	got, err := s.SessionByID(ctx, n.ID)
	wantEqual(t, "read", err, second, got)
	rotate(second, n.Refresh) // the reply was lost and the same call is made again
	third := nextOf(second, "third")
	rotate(third, second.Refresh)
	wantKept(t, server, third)

	// An earlier token ends the session with all its later tokens.
	events, err := s.RotateSession(ctx, nextOf(third, "fourth"), n.Refresh, nowMS())
	if err != nil || len(events) != 1 {
		t.Fatalf("reuse: %v, %v", events, err)
	}
	want := []signal.Event{{Account: n.Account, Type: signal.SessionEnded, Subject: string(n.ID)}}
	wantEqual(t, "announced", nil, want, outboxOf(t, s))
	if got := sessionKeys(t, server, n.Account); got != "0 0 0" {
		t.Errorf("%s records, tokens and places are left of it", got)
	}
	_, err = s.SessionByID(ctx, n.ID)
	wantError(t, err, signal.KindNotFound, "not_found")
	_, err = s.RotateSession(ctx, nextOf(third, "fifth"), third.Refresh, nowMS())
	wantError(t, err, signal.KindNotFound, "not_found")
}

func TestRotateSessionRefusesExpiredTokens(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx := t.Context()
	n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
	for name, at := range map[string]time.Time{"token": n.RefreshUntil, "session": n.EndsAt} {
		_, err := s.RotateSession(ctx, nextOf(n, name), n.Refresh, at)
		wantError(t, err, signal.KindNotFound, "not_found")
	}
	events, err := s.RotateSession(ctx, nextOf(n, "in time"), n.Refresh, n.RefreshUntil.Add(-time.Millisecond))
	if err != nil || len(events) != 0 {
		t.Errorf("in time: %v, %v", events, err)
	}
}

func TestOneTokenRotatesOnce(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
	var mu sync.Mutex
	var wg sync.WaitGroup
	rotated, ended := 0, 0
	for i := range 10 {
		wg.Go(func() {
			events, err := s.RotateSession(context.Background(), nextOf(n, string(rune('a'+i))), n.Refresh, nowMS())
			mu.Lock()
			defer mu.Unlock()
			if err == nil && len(events) == 0 {
				rotated++
			}
			ended += len(events)
		})
	}
	wg.Wait()
	if rotated != 1 || ended != 1 {
		t.Errorf("rotated %d times and ended %d times, want once each", rotated, ended)
	}
}

func TestEndSessions(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	ctx := t.Context()
	a := addAccount(t, s, "a@example.com").ID
	first, second, third := addSession(t, s, a), addSession(t, s, a), addSession(t, s, a)

	events, err := s.EndSession(ctx, a, first.ID, nowMS())
	if err != nil || len(events) != 1 || events[0].Subject != string(first.ID) {
		t.Errorf("end one: %v, %v", events, err)
	}
	if events, err := s.EndSession(ctx, a, first.ID, nowMS()); err != nil || len(events) != 0 {
		t.Errorf("end it again: %v, %v", events, err)
	}
	if got := sessionKeys(t, server, a); got != "2 2 2" {
		t.Errorf("%s records, tokens and places are left, want 2 each", got)
	}
	if _, err := s.SessionByID(ctx, second.ID); err != nil {
		t.Errorf("another session: %v", err)
	}
	if events, err := s.EndSessions(ctx, a, nowMS()); err != nil || len(events) != 2 ||
		events[0].Subject != string(second.ID) || events[1].Subject != string(third.ID) {
		t.Errorf("end all: %v, %v", events, err)
	}
	for _, n := range []credential.Session{first, second, third} {
		_, err := s.SessionByID(ctx, n.ID)
		wantError(t, err, signal.KindNotFound, "not_found")
		_, err = s.SessionByLocator(ctx, n.Locator)
		wantError(t, err, signal.KindNotFound, "not_found")
	}
	if events, err := s.EndSessions(ctx, a, nowMS()); err != nil || len(events) != 0 {
		t.Errorf("end none: %v, %v", events, err)
	}
}

func TestSessionIndexForgetsExpiredOnes(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	old := redis.Z{Score: 1000, Member: "ses_old"}
	if err := server.Client().ZAdd(t.Context(), s.SessionsOfKey(a), old).Err(); err != nil {
		t.Fatal(err)
	}
	n := addSession(t, s, a)
	got := server.Client().ZRange(t.Context(), s.SessionsOfKey(a), 0, -1).Val()
	wantEqual(t, "sessions", nil, []string{string(n.ID)}, got)
}

// TestEndedSessionsLeaveNoLocators: otherwise they would stay for 90 days.
func TestEndedSessionsLeaveNoLocators(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Store, n credential.Session) error{
		"password": func(s *Store, n credential.Session) error {
			_, err := s.SetPassword(t.Context(), n.Account, "other", 1, "", nowMS())
			return err
		},
		"logout": func(s *Store, n credential.Session) error {
			_, err := s.EndSession(t.Context(), n.Account, n.ID, nowMS())
			return err
		},
		"logout everywhere": func(s *Store, n credential.Session) error {
			_, err := s.EndSessions(t.Context(), n.Account, nowMS())
			return err
		},
		"reuse": func(s *Store, n credential.Session) error {
			_, err := s.RotateSession(t.Context(), n, credential.DigestOf("used"), nowMS())
			return err
		},
		"deletion": func(s *Store, n credential.Session) error {
			_, err := s.DeleteAccount(t.Context(), n.Account, nowMS())
			return err
		},
		"too many": func(s *Store, n credential.Session) error {
			newer := n
			newer.ID, newer.KeepUntil = signal.NewSessionIDAt(time.Now()), newer.KeepUntil.Add(time.Hour)
			newer.Locator, newer.Refresh = credential.DigestOf("other"), credential.DigestOf("others")
			email := credential.DigestOf("nobody")
			if _, _, err := s.CreateSession(t.Context(), newer, 1, email, 1, nowMS()); err != nil {
				return err
			}
			if _, err := s.SessionByLocator(t.Context(), newer.Locator); err != nil {
				return err
			}
			return s.RDB.Del(t.Context(), s.RefreshKey(newer.Locator.String())).Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := credentialStore(t)
			n := addSession(t, s, addAccount(t, s, "a@example.com").ID)
			next := nextOf(n, "next")
			if _, err := s.RotateSession(t.Context(), next, n.Refresh, nowMS()); err != nil {
				t.Fatal(err)
			}
			next.Refresh = credential.DigestOf("unknown")
			if err := end(s, next); err != nil {
				t.Fatal(err)
			}
			if left := s.RDB.Scan(t.Context(), 0, s.RefreshKey("*"), 1000).Iterator(); left.Next(t.Context()) {
				t.Errorf("%s is left", left.Val())
			}
		})
	}
}

// TestUnreplicatedRefreshIsUndone: the client uses its token again, which must not
// count as a stolen one.
func TestUnreplicatedRefreshIsUndone(t *testing.T) {
	t.Parallel()
	master := redistest.New(t)
	plain := openStore(t, redisclient.Options{URL: master.URL()})
	s := openStore(t, redisclient.Options{URL: master.URL(), WaitReplicas: 1})
	n := addSession(t, plain, addAccount(t, plain, "a@example.com").ID)
	next := n
	next.Refresh = credential.DigestOf("next")
	if _, err := s.RotateSession(t.Context(), next, n.Refresh, nowMS()); signal.KindOf(err) != signal.KindUnavailable {
		t.Fatalf("without a replica: %v", err)
	}
	next.Refresh = credential.DigestOf("next but one")
	if ended, err := plain.RotateSession(t.Context(), next, n.Refresh, nowMS()); len(ended) > 0 || err != nil {
		t.Errorf("the same token again: %v, %v", ended, err)
	}
}
