package persistence

import (
	"errors"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// credentialStore returns a store on a Redis of its own.
func credentialStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	return openStore(t, Options{URL: server.URL()}), server
}

// nowMS returns the time as records hold it.
func nowMS() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// addAccount stores an account with the password hash "hash".
func addAccount(t *testing.T, s *Store, email string) credential.Account {
	t.Helper()
	a := credential.Account{ID: signal.NewAccountID(), Email: email, CreatedAt: nowMS()}
	if err := s.CreateAccount(t.Context(), a, "hash"); err != nil {
		t.Fatal(err)
	}
	return a
}

// addSession stores a session of account and returns it with its refresh tokens'
// digests, which are random.
func addSession(t *testing.T, s *Store, account signal.AccountID) credential.Session {
	t.Helper()
	now := nowMS()
	id := signal.NewSessionID()
	n := credential.Session{ID: id, Account: account, CreatedAt: now, EndsAt: now.Add(2 * time.Hour), RefreshUntil: now.Add(time.Hour),
		KeepUntil: now.Add(time.Hour), Locator: credential.DigestOf("locator" + string(id)), Refresh: credential.DigestOf("refresh" + string(id))}
	_, until, err := s.CreateSession(t.Context(), n, 1, credential.DigestOf("nobody"), 100, now)
	if err != nil || !until.IsZero() {
		t.Fatalf("create session: locked until %v, %v", until, err)
	}
	return n
}

func addKey(t *testing.T, s *Store, account signal.AccountID, name string) (credential.APIKey, credential.Digest) {
	t.Helper()
	k := credential.APIKey{ID: signal.NewKeyID(), Account: account, Name: name, Prefix: "ask_abcd", Scopes: signal.ScopesOf(signal.AgentsRun, signal.SignalsRead), CreatedAt: nowMS()}
	d := credential.DigestOf("secret" + string(k.ID))
	if err := s.CreateKey(t.Context(), k, d, 100); err != nil {
		t.Fatal(err)
	}
	return k, d
}

// wantError demands a kind and a code.
func wantError(t *testing.T, err error, kind signal.Kind, code string) {
	t.Helper()
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != kind || e.Code != code {
		t.Errorf("got error %v, want kind %d, code %q", err, kind, code)
	}
}

// outboxOf returns the outbox without event ids.
func outboxOf(t *testing.T, s *Store) []signal.Event {
	t.Helper()
	events, err := s.Unsettled(t.Context(), time.Now().Add(time.Hour), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		events[i].ID = ""
	}
	return events
}

// nextOf returns n with the next refresh token.
func nextOf(n credential.Session, token string) credential.Session {
	n.Refresh = credential.DigestOf(token)
	n.RefreshUntil = n.RefreshUntil.Add(time.Minute)
	n.KeepUntil = n.RefreshUntil
	return n
}
