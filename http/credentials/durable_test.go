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
		revoke     func(w *world, key credential.APIKey, session signal.Principal) error
		key, token bool // whether it is still accepted
	}{
		"key": {func(w *world, k credential.APIKey, _ signal.Principal) error {
			return w.Keys.RevokeKey(t.Context(), k.Account, k.ID)
		}, false, true},
		"logout": {func(w *world, _ credential.APIKey, p signal.Principal) error {
			return w.Sessions.Logout(t.Context(), p, false)
		}, true, false},
		"logout everywhere": {func(w *world, _ credential.APIKey, p signal.Principal) error {
			return w.Sessions.Logout(t.Context(), p, true)
		}, true, false},
		"password, by its user": {func(w *world, _ credential.APIKey, p signal.Principal) error {
			p.Session = signal.NewSessionIDAt(time.Now()) // another login
			return w.Accounts.ChangePassword(t.Context(), p, goodPassword, "four brown foxes")
		}, true, false},
		"password, by the operator": {func(w *world, _ credential.APIKey, p signal.Principal) error {
			return w.Accounts.SetPassword(t.Context(), p.Account, "four brown foxes")
		}, true, false},
		"account": {func(w *world, _ credential.APIKey, p signal.Principal) error {
			return w.Accounts.DeleteAccount(t.Context(), p.Account)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{})
			a := w.register(t, "a@example.com")
			k, secret := w.key(t, a.ID, "name")
			token := w.login(t, "a@example.com").Access
			waiting, err := persistence.Open(persistence.Options{URL: w.server.URL(), WaitReplicas: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { waiting.Client.Close() })
			w.Service = New(waiting.Credentials, w.log, testKeys(), Options{Password: cheap, Now: w.clock.now})
			w.principal(t, secret) // and remembered
			if err := c.revoke(w, k, w.principal(t, token)); signal.KindOf(err) != signal.KindUnavailable {
				t.Errorf("without a replica: %v, want unavailable", err)
			}
			if len(w.log.take()) == 0 {
				t.Error("other processes are not told at once")
			}
			for credential, accepted := range map[string]bool{secret: c.key, token: c.token} {
				if accepted {
					w.principal(t, credential)
				} else {
					w.wantRefused(t, credential)
				}
			}
		})
	}
}
