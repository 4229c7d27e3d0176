package credentials

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

var lockRules = credential.LockRules{After: 5, Window: 15 * time.Minute, Duration: 15 * time.Minute}

// failTimes makes n failed logins at now and returns how the last one ended.
func failTimes(t *testing.T, s *Store, email credential.Digest, n int, now time.Time) (until time.Time, locked bool) {
	t.Helper()
	for range n {
		var err error
		if until, locked, err = s.FailLogin(t.Context(), email, lockRules, now); err != nil {
			t.Fatal(err)
		}
	}
	return until, locked
}

func TestFifthFailureLocks(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	now, email := nowMS(), credential.DigestOf("a@example.com")
	if until, locked := failTimes(t, s, email, 4, now); locked || !until.IsZero() {
		t.Fatalf("locked until %v after 4 failures", until)
	}
	until, locked := failTimes(t, s, email, 1, now)
	if want := now.Add(15 * time.Minute); !locked || !until.Equal(want) {
		t.Fatalf("fifth failure: %v, %v, want locked until %v", until, locked, want)
	}
	if got, err := s.LockedUntil(t.Context(), email); err != nil || !got.Equal(until) {
		t.Errorf("LockedUntil: %v, %v", got, err)
	}
	// While it is locked nothing is counted.
	if again, locked := failTimes(t, s, email, 20, now.Add(time.Minute)); locked || !again.Equal(until) {
		t.Errorf("while locked: %v, %v", again, locked)
	}
	if until, locked := failTimes(t, s, email, 4, until); locked || !until.IsZero() {
		t.Errorf("4 failures after the lock: %v, %v", until, locked)
	}
	if got, err := s.LockedUntil(t.Context(), credential.DigestOf("b@example.com")); err != nil || !got.IsZero() {
		t.Errorf("another email: %v, %v", got, err)
	}
}

func TestLocksGetLongerWithin24Hours(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	email := credential.DigestOf("a@example.com")
	at := nowMS()
	first := at
	for i, want := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, time.Hour} {
		until, locked := failTimes(t, s, email, 5, at)
		if !locked || until.Sub(at) != want {
			t.Errorf("lock %d lasts %v, want %v", i+1, until.Sub(at), want)
		}
		at = until
	}
	// 24 hours after the first one, three count; after all of them, none.
	until, _ := failTimes(t, s, email, 5, first.Add(24*time.Hour))
	if got := until.Sub(first.Add(24 * time.Hour)); got != time.Hour {
		t.Errorf("lock after a day lasts %v", got)
	}
	later := first.Add(50 * time.Hour)
	if until, _ := failTimes(t, s, email, 5, later); until.Sub(later) != 15*time.Minute {
		t.Errorf("lock after two days lasts %v", until.Sub(later))
	}
}

func TestFailuresCountWithinTheWindow(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	now, email := nowMS(), credential.DigestOf("a@example.com")
	failTimes(t, s, email, 1, now)
	failTimes(t, s, email, 3, now.Add(10*time.Minute))
	if _, locked := failTimes(t, s, email, 1, now.Add(15*time.Minute)); locked {
		t.Error("a failure of 15 minutes ago counts")
	}
	if _, locked := failTimes(t, s, email, 1, now.Add(16*time.Minute)); !locked {
		t.Error("five failures within six minutes do not lock")
	}
}

func TestSuccessClearsTheCount(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	a := addAccount(t, s, "a@example.com")
	now, email := nowMS(), credential.DigestOf(a.Email)
	login := func(at time.Time) (time.Time, error) {
		n := newSession(a.ID, signal.NewSessionIDAt(time.Now()), at, time.Hour)
		_, until, err := s.CreateSession(t.Context(), n, 1, email, 100, at)
		if _, lookup := s.SessionByID(t.Context(), n.ID); (lookup == nil) != (err == nil && until.IsZero()) {
			t.Errorf("session stored: %v; answer %v, %v", lookup == nil, until, err)
		}
		return until, err
	}
	failTimes(t, s, email, 4, now)
	if until, err := login(now); err != nil || !until.IsZero() {
		t.Fatalf("login: %v, %v", until, err)
	}
	if _, locked := failTimes(t, s, email, 4, now); locked {
		t.Error("failures before the login count")
	}
	until, locked := failTimes(t, s, email, 1, now)
	if !locked {
		t.Fatal("five failures after the login do not lock")
	}
	// A correct password that was compared meanwhile comes too late.
	if got, err := login(now.Add(time.Second)); err != nil || !got.Equal(until) {
		t.Errorf("login while locked: %v, %v", got, err)
	}
	if err := s.Unlock(t.Context(), email); err != nil {
		t.Fatal(err)
	}
	if got, err := login(now.Add(time.Second)); err != nil || !got.IsZero() {
		t.Errorf("login after unlock: %v, %v", got, err)
	}
	if until, locked := failTimes(t, s, email, 5, now); !locked || until.Sub(now) != 15*time.Minute {
		t.Errorf("unlock does not forget earlier locks: %v", until.Sub(now))
	}
	// A login does not, or an attacker could start over after one.
	at := now.Add(15 * time.Minute)
	if got, err := login(at); err != nil || !got.IsZero() {
		t.Errorf("login after the lock: %v, %v", got, err)
	}
	if until, locked := failTimes(t, s, email, 5, at); !locked || until.Sub(at) != 30*time.Minute {
		t.Errorf("a login forgets earlier locks: the second lock lasts %v", until.Sub(at))
	}
}

func TestLockRecordsExpire(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	now, email := nowMS(), credential.DigestOf("nobody@example.com")
	failTimes(t, s, email, 1, now)
	ttl := func() int64 {
		return server.Client().PExpireTime(t.Context(), s.LockKey(email.String())).Val().Milliseconds()
	}
	if got, want := ttl(), now.Add(15*time.Minute).UnixMilli(); got != want {
		t.Errorf("a failure is kept until %d, want %d", got, want)
	}
	failTimes(t, s, email, 4, now)
	if got, want := ttl(), now.Add(24*time.Hour).UnixMilli(); got != want {
		t.Errorf("a lock is kept until %d, want %d", got, want)
	}
	failTimes(t, s, email, 1, now.Add(16*time.Minute))
	if got, want := ttl(), now.Add(24*time.Hour).UnixMilli(); got != want {
		t.Errorf("with a failure after it, a lock is kept until %d, want %d", got, want)
	}
}
