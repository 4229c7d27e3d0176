package credentials

import (
	"context"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
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
