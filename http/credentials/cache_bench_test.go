package credentials

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestHotPathAllocatesNothing(t *testing.T) {
	m := &memory{}
	s := New(m, &eventLog{}, testKeys(), Options{})
	secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1", LastUsedAt: time.Now().Add(time.Minute)})
	_, access := m.addSession(t, s, "acc_1")
	ctx := t.Context()
	for name, token := range map[string]string{"key": secret, "access token": access} {
		if _, err := s.Authenticator.Authenticate(ctx, token); err != nil {
			t.Fatal(err)
		}
		// One renewal may fall into it.
		if n := testing.AllocsPerRun(1000, func() { s.Authenticator.Authenticate(ctx, token) }); n > 0.1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	m := &memory{}
	s := New(m, &eventLog{}, testKeys(), Options{})
	secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
	n := credential.Session{ID: "ses_1", Account: "acc_1", EndsAt: time.Now().Add(time.Hour)}
	m.sessions = map[signal.SessionID]credential.Session{n.ID: n}
	access, err := s.Authenticator.jwt.issue("acc_1", "ses_1", time.Now(), time.Now().Add(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	for name, token := range map[string]string{"key": secret, "jwt": access} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Authenticator.Authenticate(context.Background(), token); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
	b.Run("forged jwt", func(b *testing.B) {
		forged := access[:len(access)-2] + "AA"
		for b.Loop() {
			s.Authenticator.Authenticate(context.Background(), forged)
		}
	})
}

// BenchmarkAuthenticateReaders compares an account of ten readers with one of ten thousand, in turns. The keys are not
// remembered, so that each takes a read of Redis, as that of a new connection does.
func BenchmarkAuthenticateReaders(b *testing.B) {
	server := redistest.New(b)
	store, err := persistence.Open(persistence.Options{URL: server.URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Client.Close() })
	s := New(store.Credentials, &eventLog{}, testKeys(), Options{Password: cheap})
	var tokens [2][]string
	for i, n := range []int{10, 10_000} {
		a, err := s.Accounts.CreateAccount(b.Context(), fmt.Sprintf("%d@example.com", n), goodPassword)
		if err != nil {
			b.Fatal(err)
		}
		for len(tokens[i]) < n {
			_, some, err := s.Readers.CreateReaders(b.Context(), a.ID, "r", min(n, MaxReadersAtOnce), everything)
			if err != nil {
				b.Fatal(err)
			}
			tokens[i] = append(tokens[i], some...)
		}
	}
	var took [2]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range tokens {
			token := tokens[i][n%len(tokens[i])]
			s.Authenticator.keys.forget(digest(token))
			began := time.Now()
			if _, err := s.Authenticator.Authenticate(b.Context(), token); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(began)
		}
	}
	for i, of := range []string{"10", "10000"} {
		b.ReportMetric(float64(took[i].Nanoseconds())/float64(b.N), "ns/of_"+of)
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
}
