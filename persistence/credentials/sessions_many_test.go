package credentials

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// manySessions gives an account n sessions in one call, with the names ses_0, ses_1, … in the
// order of their ends.
func manySessions(t *testing.T, server *redistest.Server, a signal.AccountID, n int) {
	t.Helper()
	const script = `for i = 0, ARGV[1] - 1 do
  local id, digest = 'ses_' .. i, string.format('%064x', i)
  redis.call('HSET', KEYS[1] .. id, 'v', 1, 'account', ARGV[2], 'created', 1, 'ends', ARGV[3], 'refresh_until', ARGV[3],
    'keep_until', ARGV[3], 'locator', digest, 'refresh', digest)
  redis.call('SET', KEYS[2] .. digest, id)
  redis.call('ZADD', KEYS[3], ARGV[3] + i, id)
end`
	until := time.Now().Add(time.Hour).UnixMilli()
	k := redisclient.NewKeys(1)
	keys := []string{k.SessionKey(""), k.RefreshKey(""), k.SessionsOfKey(a)}
	err := server.Client().Eval(t.Context(), script, keys, n, string(a), until).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

// sessionKeys returns how many records, refresh tokens and places in the index the sessions of an
// account take. It must be the only account with sessions.
func sessionKeys(t *testing.T, server *redistest.Server, a signal.AccountID) string {
	t.Helper()
	c, ctx := server.Client(), t.Context()
	k := redisclient.NewKeys(1)
	records, tokens := c.Keys(ctx, k.SessionKey("*")).Val(), c.Keys(ctx, k.RefreshKey("*")).Val()
	return fmt.Sprint(len(records), len(tokens), c.ZCard(ctx, k.SessionsOfKey(a)).Val())
}

// scriptCalls returns how many scripts the server was asked to run.
func scriptCalls(t *testing.T, server *redistest.Server) int {
	t.Helper()
	n, stats := 0, server.Client().Info(t.Context(), "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

func TestSessionsOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	create := func(n credential.Session) []string {
		t.Helper()
		events, until, err := s.CreateSession(t.Context(), n, 1, credential.DigestOf("nobody"), 2, nowMS())
		if err != nil || !until.IsZero() {
			t.Fatalf("create session: locked until %v, %v", until, err)
		}
		ended := []string{}
		for _, e := range events {
			if e.Type != signal.SessionEnded || e.Account != a {
				t.Errorf("announced %+v", e)
			}
			ended = append(ended, e.Subject)
		}
		return ended
	}
	session := func(id signal.SessionID, lasts time.Duration) credential.Session {
		return newSession(a, id, nowMS(), lasts)
	}
	first, second := session("ses_1", time.Minute), session("ses_2", 2*time.Minute)
	third := session("ses_3", 3*time.Minute)
	for _, n := range []credential.Session{first, second, second} { // the last call's answer was lost
		if ended := create(n); len(ended) != 0 {
			t.Errorf("%s ends %v", n.ID, ended)
		}
	}
	// The first is refreshed, so the end of the second is the nearest.
	next := session("ses_1", time.Hour)
	next.Refresh = credential.DigestOf("next")
	if events, err := s.RotateSession(t.Context(), next, first.Refresh, nowMS()); err != nil || len(events) != 0 {
		t.Fatalf("rotate: %v, %v", events, err)
	}
	wantEqual(t, "ended", nil, []string{"ses_2"}, create(third))
	wantEqual(t, "ended by the same call again", nil, []string{}, create(third))
	want := []signal.Event{{Account: a, Type: signal.SessionEnded, Subject: "ses_2"}}
	wantEqual(t, "outbox", nil, want, outboxOf(t, s))
	if got := sessionKeys(t, server, a); got != "2 2 2" {
		t.Errorf("%s records, tokens and places are left, want 2 each", got)
	}
	for _, id := range []signal.SessionID{"ses_1", "ses_3"} {
		if _, err := s.SessionByID(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	// A new session stays even if its end is the nearest.
	wantEqual(t, "ended by a short one", nil, []string{"ses_3"}, create(session("ses_4", time.Second)))
}

// TestManySessionsEndInSteps has an account from before there was a limit.
func TestManySessionsEndInSteps(t *testing.T) {
	t.Parallel()
	const many = 2*sessionsAtOnce + 200
	last := signal.SessionID(fmt.Sprintf("ses_%d", many-1))
	for name, test := range map[string]struct {
		end       func(s *Store, a signal.AccountID, at time.Time) ([]signal.Event, error)
		left      string
		announced int
	}{
		"logout": {func(s *Store, a signal.AccountID, at time.Time) ([]signal.Event, error) {
			return s.EndSessions(t.Context(), a, at)
		}, "0 0 0", 1},
		"password": {func(s *Store, a signal.AccountID, at time.Time) ([]signal.Event, error) {
			return s.SetPassword(t.Context(), a, "next", 1, "ses_0", at)
		}, "1 1 1", many - 1},
		"delete": {func(s *Store, a signal.AccountID, at time.Time) ([]signal.Event, error) {
			return s.DeleteAccount(t.Context(), a, at)
		}, "0 0 0", 2},
		"login": {func(s *Store, a signal.AccountID, at time.Time) ([]signal.Event, error) {
			n := newSession(a, "ses_new", at, 2*time.Hour)
			events, until, err := s.CreateSession(t.Context(), n, 1, credential.DigestOf("nobody"), 100, at)
			if !until.IsZero() {
				t.Errorf("locked until %v", until)
			}
			return events, err
		}, "100 100 100", many - 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, server := credentialStore(t)
			a := addAccount(t, s, "a@example.com").ID
			manySessions(t, server, a, many)
			before := scriptCalls(t, server)
			events, err := test.end(s, a, nowMS())
			if err != nil {
				t.Fatal(err)
			}
			if n := scriptCalls(t, server) - before; n < 3 {
				t.Errorf("%d sessions end in %d scripts", many, n)
			}
			if got := sessionKeys(t, server, a); got != test.left {
				t.Errorf("%s records, tokens and places are left, want %s", got, test.left)
			}
			announced := int(server.Client().ZCard(t.Context(), s.OutboxKey()).Val())
			if len(events) != test.announced || announced != test.announced {
				t.Errorf("%d events, %d in the outbox, want %d", len(events), announced, test.announced)
			}
			if _, err := s.SessionByID(t.Context(), last); name != "login" && err == nil {
				t.Error("the last one is valid")
			}
			if err := s.Settle(t.Context(), events); err != nil {
				t.Fatal(err)
			}
			if left := outboxOf(t, s); len(left) != 0 {
				t.Errorf("%v is announced again", left)
			}
		})
	}
}

func TestOnlyExcessSessionsEnd(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	manySessions(t, server, a, 6)
	event := signal.Event{ID: signal.NewEventID(), Account: a, Type: signal.SessionEnded}
	for _, test := range []struct {
		left int
		keep signal.SessionID
		want []string
	}{{4, "ses_1", []string{"ses_1", "ses_3", "ses_4", "ses_5"}}, {2, "ses_5", []string{"ses_4", "ses_5"}}} {
		before := server.Client().ZCard(t.Context(), s.SessionsOfKey(a)).Val()
		ended, err := s.endOldest(t.Context(), event, test.left, test.keep, "", nowMS())
		if err != nil || len(ended) != int(before)-test.left {
			t.Errorf("%+v end, %v", ended, err)
		}
		left := server.Client().ZRange(t.Context(), s.SessionsOfKey(a), 0, -1).Val()
		wantEqual(t, "left", nil, test.want, left)
	}
}

// Sessions that cannot be ended are not tried for ever.
func TestEndingSessionsGivesUp(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	a := addAccount(t, s, "user@example.com")
	only := addSession(t, s, a.ID)
	event := signal.Event{ID: signal.NewEventID(), Account: a.ID, Type: signal.SessionEnded}
	if ended, err := s.endOldest(t.Context(), event, 0, only.ID, "", nowMS()); err == nil || len(ended) > 0 {
		t.Errorf("ended %v, %v; want an error", ended, err)
	}
}

// TestSessionsWithoutRecordAreRemovedFirst: its place in the index is removed instead of a valid session.
func TestSessionsWithoutRecordAreRemovedFirst(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *Store, a signal.AccountID) ([]signal.Event, error){
		"end": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			event := signal.Event{ID: signal.NewEventID(), Account: a, Type: signal.SessionEnded}
			return s.endOldest(t.Context(), event, 3, "", "", nowMS())
		},
		"login": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			n := newSession(a, "ses_new", nowMS(), 2*time.Hour)
			ended, _, err := s.CreateSession(t.Context(), n, 1, credential.DigestOf("nobody"), 4, nowMS())
			return ended, err
		},
	} {
		s, server := credentialStore(t)
		a := addAccount(t, s, "a@example.com").ID
		manySessions(t, server, a, 5)
		server.Client().Del(t.Context(), s.SessionKey("ses_0"))
		ended, err := end(s, a)
		if err != nil || len(ended) != 1 || ended[0].Subject != "ses_1" {
			t.Errorf("%s: %+v end, %v; want ses_1", name, ended, err)
		}
		left := server.Client().ZRange(t.Context(), s.SessionsOfKey(a), 0, 2).Val()
		wantEqual(t, name+": left", nil, []string{"ses_2", "ses_3", "ses_4"}, left)
	}
}

// TestPasswordChangesWithLastSessions interrupts the change between steps.
func TestPasswordChangesWithLastSessions(t *testing.T) {
	t.Parallel()
	s, server := credentialStore(t)
	a := addAccount(t, s, "a@example.com").ID
	manySessions(t, server, a, sessionsAtOnce+1)
	if _, err := s.SetPassword(t.Context(), a, "next", 2, "", nowMS()); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("another version: %v", err)
	}
	if got := server.Client().ZCard(t.Context(), s.SessionsOfKey(a)).Val(); got != sessionsAtOnce+1 {
		t.Errorf("%d sessions are left after a change that was refused", got)
	}
	// Only the script that ends the last sessions may set it.
	keys := []string{s.AccountKey(a), s.SessionsOfKey(a), s.OutboxKey()}
	answer, err := passwordSetScript.Run(t.Context(), s.RDB, keys, "next", 1, "", 1, "", "",
		sessionsAtOnce).Int()
	if err != nil || answer != -3 {
		t.Errorf("too many sessions for one script: %v, %v", answer, err)
	}
	if _, p, err := s.AccountByID(t.Context(), a); err != nil || p.Version != 1 || p.Hash != "hash" {
		t.Errorf("%+v, %v: the password is changed while sessions of the old one are valid", p, err)
	}
}
