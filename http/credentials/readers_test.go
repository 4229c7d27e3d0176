package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// everything makes readers of everything.
var everything = NewReader{View: signal.NewView(signal.Names{}, signal.Names{}, signal.Names{})}

// readers creates readers with the names reader-1, reader-2, ….
func (s *testService) readers(t *testing.T, account signal.AccountID, n int) (secrets []string) {
	t.Helper()
	for left := n; left > 0; left -= MaxReadersAtOnce {
		_, some, err := s.Readers.CreateReaders(t.Context(), account, "reader", min(left, MaxReadersAtOnce), everything)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, some...)
	}
	return secrets
}

func TestCreateReader(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	hour := int64(3600)
	view := signal.NewView(signal.NamesOf("trading"), signal.NamesOf("BTC"), signal.Names{})
	k, secret, err := s.Readers.CreateReader(t.Context(), a.ID, " ann ",
		NewReader{View: view, ExpiresIn: &hour, MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := signal.Principal{Account: a.ID, Key: k.ID, Scopes: signal.ReaderScopes, ExpiresAt: k.CreatedAt.Add(time.Hour),
		View: view, MaxConnections: 2}
	if p := s.principal(t, secret); p != want || k.Name != "ann" {
		t.Errorf("reader %+v is %+v, want %+v", k, p, want)
	}
	if keys, total, err := s.Keys.List(t.Context(), a.ID, 10, 0); err != nil || len(keys)+total != 0 {
		t.Errorf("among the other keys: %v, %v", keys, err)
	}
	k, _, err = s.Readers.CreateReader(t.Context(), a.ID, "ben", NewReader{View: view, Scopes: []string{"signals:read"}})
	if err != nil || k.Scopes != signal.ScopesOf(signal.SignalsRead) || k.MaxConnections != DefaultReaderConnections {
		t.Errorf("%+v, %v", k, err)
	}
	_, _, err = s.Readers.CreateReader(t.Context(), a.ID, "ann", everything)
	wantCode(t, err, "name_taken")
	_, _, err = s.Readers.CreateReader(t.Context(), a.ID, strings.Repeat("x", 101), NewReader{View: view,
		Scopes: []string{"agents:run", "agents:read", "none"}, ExpiresIn: new(int64)})
	wantFields(t, err, "scopes/0 invalid_value", "scopes/2 invalid_value", "expires_in out_of_range", "name too_long")
	_, _, err = s.Readers.CreateReaders(t.Context(), a.ID, strings.Repeat("x", 81), 1, everything)
	wantFields(t, err, "name_prefix too_long")
}

// TestBatchesAtOnceHaveNamesOfTheirOwn although they choose them before they are stored.
func TestBatchesAtOnceHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{MaxReaders: 40})
	a := s.register(t, "a@example.com")
	var mu sync.Mutex
	var names []string
	var wg sync.WaitGroup
	for range batchTries { // of which one succeeds in each round
		wg.Go(func() {
			keys, _, err := s.Readers.CreateReaders(context.Background(), a.ID, "r", 7, everything)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, k := range keys {
				names = append(names, k.Name)
			}
		})
	}
	wg.Wait()
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != 7*batchTries || !slices.Contains(names, fmt.Sprint("r-", n)) {
		t.Errorf("%d names: %s", n, names)
	}
	_, _, err := s.Readers.CreateReaders(t.Context(), a.ID, "r", 6, everything)
	wantCode(t, err, "limit_reached")
	s.key(t, a.ID, "another key")
}

func TestReadersAreRevokedInSteps(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	a := s.register(t, "a@example.com")
	secrets := s.readers(t, a.ID, 1100)
	_, plain := s.key(t, a.ID, "reader-") // no reader
	for _, secret := range secrets {
		s.principal(t, secret)
	}
	n, err := s.Readers.RevokeReaders(t.Context(), a.ID, "reader-")
	if err != nil || n != 1100 {
		t.Errorf("revoked %d, %v", n, err)
	}
	for _, secret := range secrets {
		s.wantRefused(t, secret)
	}
	s.principal(t, plain)
	subjects := map[string]bool{}
	for _, e := range s.log.take() {
		if e.Type != signal.KeyRevoked || e.Account != a.ID {
			t.Fatalf("event %+v", e)
		}
		subjects[e.Subject] = true
	}
	if unsettled, err := s.store.Credentials.Unsettled(t.Context(), time.Now().Add(time.Hour), 10); len(subjects) != 1100 ||
		len(unsettled) != 0 || err != nil {
		t.Errorf("%d keys are announced, %d left to announce, %v", len(subjects), len(unsettled), err)
	}
}

// TestManyRevocationsAreForgottenAtOnce among many keys of an account.
func TestManyRevocationsAreForgottenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		s := New(m, &eventLog{}, testKeys(), Options{})
		secrets, events := map[string]bool{}, []signal.Event{}
		for i := range 200 {
			k := credential.APIKey{ID: signal.NewKeyID(), Account: signal.AccountID(fmt.Sprint("acc_", i%2))}
			secret := m.addKey(k)
			if _, err := s.Authenticator.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			if secrets[secret] = i%4 == 0; secrets[secret] {
				events = append(events, signal.Event{Account: k.Account, Type: signal.KeyRevoked, Subject: string(k.ID)})
			}
		}
		s.Authenticator.Forget(events)
		for secret, revoked := range secrets {
			m.counted()
			if _, err := s.Authenticator.Authenticate(t.Context(), secret); err != nil || (m.counted() > 0) != revoked {
				t.Errorf("revoked %v: asked again %v, %v", revoked, !revoked, err)
			}
		}
	})
}
