package persistence

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// TestReadsWaitForReplicas: what callers keep or show is handed on once replicas have it. For the
// first pass of the catalogue that means that a list does not show what replicas lack.
func TestReadsWaitForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	replica.Follow(master)
	plain := openStore(t, Options{URL: master.URL()})
	log := openLog(t, plain, eventlog.LogOptions{})
	account := storetest.AddAccount(t, plain.Credentials, "reader@example.com").ID
	p := plain.Client.Partition(account)
	errNothing := errors.New("nothing was read")
	reads := map[string]func(ctx context.Context, s *Store) error{ // errNothing: it shows nothing
		"first pass of the catalogue": func(ctx context.Context, s *Store) error {
			n := 0
			err := s.Signals.ScanSignals(ctx, p, func(signal.LogEntry) error { n++; return nil })
			if err == nil && n == 0 {
				return errNothing
			}
			return err
		},
		"records of a scorecard": func(ctx context.Context, s *Store) error {
			n := 0
			upTo, err := s.Signals.EachRecord(ctx, account, signal.Position{}, func(signal.Position, *signal.Signal) { n++ })
			if err != nil && (n > 0 || !upTo.IsZero()) {
				t.Errorf("%d records up to %v are handed on with %v", n, upTo, err)
			}
			if err == nil && n == 0 {
				return errNothing
			}
			return err
		},
		"leaves of a scorecard": func(ctx context.Context, s *Store) error {
			return s.Signals.EachLeaf(ctx, account, signal.Position{}, signal.Position{MS: math.MaxInt64},
				func(signal.Position, int64, int64) {})
		},
		"keys":          func(ctx context.Context, s *Store) error { return errOf(s.Credentials.Keys(ctx, account)) },
		"accounts":      func(ctx context.Context, s *Store) error { return errOf2(s.Credentials.Accounts(ctx, 10, 0)) },
		"countersigned": func(ctx context.Context, s *Store) error { return errOf(s.Leaves.Countersigned(ctx)) },
		"records":       func(ctx context.Context, s *Store) error { return s.ConfirmRead(ctx, account) },
		"installation":  func(ctx context.Context, s *Store) error { return s.Client.Installation.Confirm(ctx) },
	}
	add := func() {
		t.Helper()
		if _, err := log.Append(t.Context(), storetest.Created(storetest.Signal(account))); err != nil {
			t.Fatal(err)
		}
	}
	add()
	for name, read := range reads {
		patient := openStore(t, Options{URL: master.URL(), WaitReplicas: 1, Timeout: time.Minute})
		if err := read(t.Context(), patient); err != nil {
			t.Errorf("%s, with a replica: %v", name, err)
		}
	}
	replica.Detach()
	add()
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Options{URL: master.URL(), WaitReplicas: 1, Timeout: slowest})
			for _, known := range []bool{false, true} { // that replicas are missing
				if s.Client.Replicas.Missing() != known {
					t.Errorf("degraded %t, want %t", !known, known)
				}
				err := read(t.Context(), s)
				if reason, _ := redisclient.Refusal(err); signal.KindOf(err) != signal.KindUnavailable ||
					reason != redisclient.ReplicasMissing {
					t.Errorf("without a replica: %v", err)
				}
			}
			s = openStore(t, Options{URL: master.URL(), WaitReplicas: 1, AcceptWithoutReplicas: true, Timeout: slowest})
			if err := read(t.Context(), s); err != nil {
				t.Errorf("without a replica, which is accepted: %v", err)
			}
		})
	}
}

// slowest is Options.Timeout where half of it passes before replicas are missing, and the other half
// is for a busy machine.
const slowest = 4 * time.Second

// TestAFailoverToALaggingReplica: the replica that takes the place of its master lacks the last
// changes. Without a wait they were acknowledged and shown, and are lost; with one they were not.
func TestAFailoverToALaggingReplica(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]int{"no wait": 0, "a wait": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica, other := redistest.New(t), redistest.New(t), redistest.New(t)
			replica.Follow(master)
			proxy := redistest.NewProxy(t, master)
			s := openStore(t, Options{URL: proxy.URL(), WaitReplicas: wait, Timeout: slowest})
			log := openLog(t, s, eventlog.LogOptions{})
			hooks := deliveries.New(s.Client, log)
			account := signal.NewAccountID()
			shown := func(id signal.WebhookID) error { // as a request for it is answered
				_, err := hooks.Settings.Webhook(t.Context(), account, id)
				return errors.Join(err, s.ConfirmRead(t.Context(), account))
			}
			register := func() (signal.WebhookID, error) {
				w := storetest.Webhook(account)
				w.URL += string(w.ID)
				_, err := hooks.Settings.Register(t.Context(), w, 100, nil)
				return w.ID, err
			}
			var early signal.WebhookID
			redistest.Eventually(t, func() bool {
				id, err := register()
				early = id
				return err == nil
			})
			replica.InStep(master)
			replica.Detach()
			var late []signal.WebhookID
			for range 5 {
				id, err := register()
				late = append(late, id)
				if acknowledged := err == nil; acknowledged != (wait == 0) {
					t.Errorf("a change that the replica lacks is answered with %v", err)
				}
				if confirmed := shown(id) == nil; confirmed != (wait == 0) {
					t.Errorf("a change that the replica lacks is shown: %t", confirmed)
				}
			}
			master.Kill()
			replica.Promote()
			other.Follow(replica) // which confirms from now on
			proxy.Switch(replica)
			redistest.Eventually(t, func() bool { return shown(early) == nil })
			for _, id := range late {
				if err := shown(id); signal.KindOf(err) != signal.KindNotFound {
					t.Errorf("the replica has a change that it lacked: %v", err)
				}
			}
			redistest.Eventually(t, func() bool { return errOf(register()) == nil })
		})
	}
}
