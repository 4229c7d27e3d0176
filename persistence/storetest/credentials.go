package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// Credentials is the part of the store of credentials that the helpers use.
type Credentials interface {
	CreateAccount(ctx context.Context, a credential.Account, hash string) error
	CreateKey(ctx context.Context, k credential.APIKey, d credential.Digest, limit int) error
	CreateSession(
		ctx context.Context, n credential.Session, version int64, email credential.Digest, limit int, now time.Time,
	) (ended []signal.Event, lockedUntil time.Time, err error)
	Unsettled(ctx context.Context, before time.Time, limit int) ([]signal.Event, error)
}

// Now returns the time as records hold it.
func Now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// AddAccount stores an account with the password hash "hash".
func AddAccount(tb testing.TB, s Credentials, email string) credential.Account {
	tb.Helper()
	a := credential.Account{ID: signal.NewAccountID(), Email: email, CreatedAt: Now()}
	if err := s.CreateAccount(tb.Context(), a, "hash"); err != nil {
		tb.Fatal(err)
	}
	return a
}

// AddSession stores a session of account with digests of its own.
func AddSession(tb testing.TB, s Credentials, account signal.AccountID) credential.Session {
	tb.Helper()
	now, id := Now(), signal.NewSessionIDAt(time.Now())
	n := credential.Session{
		ID: id, Account: account, CreatedAt: now, EndsAt: now.Add(2 * time.Hour),
		RefreshUntil: now.Add(time.Hour), KeepUntil: now.Add(time.Hour),
		Locator: credential.DigestOf("locator" + string(id)), Refresh: credential.DigestOf("refresh" + string(id)),
	}
	_, until, err := s.CreateSession(tb.Context(), n, 1, credential.DigestOf("nobody"), 100, now)
	if err != nil || !until.IsZero() {
		tb.Fatalf("create session: locked until %v, %v", until, err)
	}
	return n
}

// NextSession returns n with its next refresh token.
func NextSession(n credential.Session, token string) credential.Session {
	n.Refresh = credential.DigestOf(token)
	n.RefreshUntil = n.RefreshUntil.Add(time.Minute)
	n.KeepUntil = n.RefreshUntil
	return n
}

// AddKey stores an API key of account and returns it with the digest of its secret.
func AddKey(
	tb testing.TB, s Credentials, account signal.AccountID, name string,
) (credential.APIKey, credential.Digest) {
	tb.Helper()
	k := credential.APIKey{
		ID: signal.NewKeyID(), Account: account, Name: name, Prefix: "ask_abcd",
		Scopes: signal.ScopesOf(signal.AgentsRun, signal.SignalsRead), CreatedAt: Now(),
	}
	d := credential.DigestOf("secret" + string(k.ID))
	if err := s.CreateKey(tb.Context(), k, d, 100); err != nil {
		tb.Fatal(err)
	}
	return k, d
}

// Readers returns n readers that are not stored, with the names prefix-1, prefix-2, …, and the digests of their secrets.
func Readers(account signal.AccountID, prefix string, n int) ([]credential.APIKey, []credential.Digest) {
	view := signal.NewView(signal.Names{}, signal.NamesOf("BTC"), signal.NamesOf())
	readers, digests, now := make([]credential.APIKey, n), make([]credential.Digest, n), Now()
	for i := range readers {
		id := signal.NewKeyID()
		readers[i] = credential.APIKey{ID: id, Account: account, Name: fmt.Sprintf("%s-%d", prefix, i+1), Prefix: "ask_abcd",
			Scopes: signal.ReaderScopes, CreatedAt: now, View: view, MaxConnections: 5}
		digests[i] = credential.DigestOf("secret" + string(id))
	}
	return readers, digests
}

// Outbox returns the outbox without the ids of its events.
func Outbox(tb testing.TB, s Credentials) []signal.Event {
	tb.Helper()
	events, err := s.Unsettled(tb.Context(), time.Now().Add(time.Hour), 1000)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range events {
		events[i].ID = ""
	}
	return events
}
