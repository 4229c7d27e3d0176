package credentials

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence"
)

// TestRevocationsHoldHereThoughNoReplicaHasThem: they are answered with
// unavailable, since a failover may undo them, but the ended credentials are refused.
func TestRevocationsHoldHereThoughNoReplicaHasThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revoke     func(s *testService, key credential.APIKey, session signal.Principal) error
		key, token bool // whether it is still accepted
	}{
		"key": {func(s *testService, k credential.APIKey, _ signal.Principal) error {
			return s.Keys.RevokeKey(t.Context(), k.Account, k.ID)
		}, false, true},
		"keys of the same name": {func(s *testService, k credential.APIKey, _ signal.Principal) error {
			n, err := s.Readers.RevokeReaders(t.Context(), k.Account, "reader-")
			if n != 600 { // two steps, of which the first fails as well
				t.Errorf("revoked %d readers", n)
			}
			return err
		}, true, true},
		"logout": {func(s *testService, _ credential.APIKey, p signal.Principal) error {
			return s.Sessions.Logout(t.Context(), p, false)
		}, true, false},
		"logout everywhere": {func(s *testService, _ credential.APIKey, p signal.Principal) error {
			return s.Sessions.Logout(t.Context(), p, true)
		}, true, false},
		"password, by its user": {func(s *testService, _ credential.APIKey, p signal.Principal) error {
			p.Session = signal.NewSessionIDAt(time.Now()) // another login
			return s.Accounts.ChangePassword(t.Context(), p, goodPassword, "four brown foxes")
		}, true, false},
		"password, by the operator": {func(s *testService, _ credential.APIKey, p signal.Principal) error {
			return s.Accounts.SetPassword(t.Context(), p.Account, "four brown foxes")
		}, true, false},
		"account": {func(s *testService, _ credential.APIKey, p signal.Principal) error {
			return s.Accounts.DeleteAccount(t.Context(), p.Account)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestService(t, Options{})
			a := s.register(t, "a@example.com")
			k, secret := s.key(t, a.ID, "name")
			token := s.login(t, "a@example.com").Access
			s.readers(t, a.ID, 600)
			waiting, err := persistence.Open(persistence.Options{URL: s.server.URL(), WaitReplicas: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { waiting.Client.Close() })
			s.Service = New(waiting.Credentials, s.log, testKeys(), Options{Password: cheap, Now: s.clock.now})
			s.principal(t, secret) // and remembered
			if err := c.revoke(s, k, s.principal(t, token)); signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("without a replica: %v, want unavailable", err)
			}
			if len(s.log.take()) == 0 {
				t.Error("other processes are not told at once")
			}
			for credential, accepted := range map[string]bool{secret: c.key, token: c.token} {
				if accepted {
					s.principal(t, credential)
				} else {
					s.wantRefused(t, credential)
				}
			}
		})
	}
}
