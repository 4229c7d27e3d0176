package eventlog

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// leaseStore opens a store with 4 partitions on a server of the test's own.
func leaseStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	return openStore(t, redisclient.Options{URL: server.URL(), Partitions: 4}), server
}

// renew renews the lease of one partition.
func renew(t *testing.T, s *Store, p int, node string, epoch int64, ttl time.Duration) error {
	t.Helper()
	return s.Leases.RenewLeases(t.Context(), node, []cluster.Lease{{Partition: p, Epoch: epoch}}, ttl)[0]
}

func TestLeaseHasOneOwner(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	first := take(t, s.Leases, 1, "a", time.Minute)
	epoch, owner, err := s.Leases.TakeLease(ctx, 1, "b", time.Minute)
	if epoch != 0 || owner != "a" || err != nil {
		t.Errorf("b takes a lease that a holds: epoch %d, owner %q, %v", epoch, owner, err)
	}
	if other := take(t, s.Leases, 2, "b", time.Minute); other == 0 {
		t.Error("the lease of another partition was refused")
	}
	if err := renew(t, s, 1, "a", first, 2*time.Minute); err != nil {
		t.Errorf("a renews: %v", err)
	}
	if ttl := server.Client().PTTL(ctx, s.OwnerKey(1)).Val(); ttl < 90*time.Second || ttl > 2*time.Minute {
		t.Errorf("the renewed lease lasts %v, want about 2 minutes", ttl)
	}
	wantKind(t, "b renews", renew(t, s, 1, "b", first, time.Minute), signal.KindConflict)
	if node, held, err := s.Leases.Owner(ctx, 1); node != "a" || held != first || err != nil {
		t.Errorf("Owner: %q, %d, %v", node, held, err)
	}

	// A restarted node does not wait for its own lease, and its epoch is new.
	second := take(t, s.Leases, 1, "a", time.Minute)
	if second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
	err = renew(t, s, 1, "a", first, time.Minute)
	wantKind(t, "the process before the restart renews", err, signal.KindConflict)
	if err := s.Leases.ReleaseLease(ctx, 1, "a", first); err != nil {
		t.Errorf("release by a former owner: %v", err)
	}
	if node, _, _ := s.Leases.Owner(ctx, 1); node != "a" {
		t.Errorf("a former owner's release took the lease from its successor: owner %q", node)
	}
	if err := s.Leases.ReleaseLease(ctx, 1, "a", second); err != nil {
		t.Errorf("release: %v", err)
	}
	if node, held, err := s.Leases.Owner(ctx, 1); node != "" || held != 0 || err != nil {
		t.Errorf("Owner after the release: %q, %d, %v", node, held, err)
	}
	if third := take(t, s.Leases, 1, "b", time.Minute); third <= second {
		t.Errorf("epoch %d after %d", third, second)
	}
}

// All leases of a node are renewed and given back together: those that are lost stay with their owner.
func TestLeasesOfANode(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx, c := t.Context(), server.Client()
	c.Set(ctx, s.PositionKey(2), "1-0", 0)
	log := openLog(t, s, LogOptions{})
	var leases []cluster.Lease
	for p := range s.Partitions() {
		at, err := log.Append(ctx, noted(accountIn(s, p), "any"))
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, cluster.Lease{Partition: p, Epoch: take(t, s.Leases, p, "a", time.Minute), Position: at})
	}
	leases[2].Position = signal.Position{}
	if err := s.Leases.ReleaseLease(ctx, 1, "a", leases[1].Epoch); err != nil {
		t.Fatal(err)
	}
	take(t, s.Leases, 1, "b", time.Minute)
	c.ScriptFlush(ctx) // as after a restart
	for range 2 {
		before := c.PTTL(ctx, s.OwnerKey(1)).Val()
		for p, err := range s.Leases.RenewLeases(ctx, "a", leases, time.Hour) {
			ttl := c.PTTL(ctx, s.OwnerKey(p)).Val()
			if p == 1 {
				wantKind(t, "renewal of a lost lease", err, signal.KindConflict)
				if ttl > before {
					t.Errorf("it extends that of the new owner to %v", ttl)
				}
			} else if err != nil || ttl < 59*time.Minute {
				t.Errorf("partition %d: %v, and the lease lasts %v", p, err, ttl)
			}
		}
	}
	if errs := s.Leases.RenewLeases(ctx, "a", nil, time.Hour); len(errs) != 0 {
		t.Errorf("renewal of no leases: %v", errs)
	}
	if err := s.Leases.ReleaseLeases(ctx, "a", leases); err != nil {
		t.Fatal(err)
	}
	for p := range s.Partitions() {
		owner, _, err := s.Leases.Owner(ctx, p)
		at, positionErr := s.Positions.OwnerPosition(ctx, p)
		want, position := "", leases[p].Position
		switch p {
		case 1:
			want, position = "b", signal.Position{}
		case 2:
			position = signal.Position{MS: 1}
		}
		if owner != want || at != position || err != nil || positionErr != nil {
			t.Errorf("partition %d: owner %q at %v, want %q at %v; %v, %v", p, owner, at, want, position, err, positionErr)
		}
	}
	server.Kill()
	for _, err := range s.Leases.RenewLeases(ctx, "a", leases, time.Hour) {
		wantKind(t, "renewal without Redis", err, signal.KindUnavailable)
	}
	wantKind(t, "release without Redis", s.Leases.ReleaseLeases(ctx, "a", leases), signal.KindUnavailable)
}

func TestLeaseEndsWithItsTime(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	first := take(t, s.Leases, 0, "a", 20*time.Millisecond)
	var second int64
	eventually(t, func() bool {
		second, _, _ = s.Leases.TakeLease(t.Context(), 0, "b", time.Minute)
		return second != 0
	})
	if second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
	err := renew(t, s, 0, "a", first, time.Minute)
	wantKind(t, "renewal of a lease that ran out", err, signal.KindConflict)
}

// A Redis that has lost its newest writes gives no epoch twice.
func TestEpochIsNewAfterDataLoss(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	first := take(t, s.Leases, 0, "a", time.Minute)
	server.Client().Del(t.Context(), s.EpochKey(0), s.OwnerKey(0))
	eventually(t, func() bool { return s.Now().UnixMilli() > first })
	if second := take(t, s.Leases, 0, "b", time.Minute); second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
}

// TestEpochsAscendWithSlowClock: Redis' clock may be behind the last epoch, for example
// after a failover to a host with a slow clock.
func TestEpochsAscendWithSlowClock(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	server.Client().Set(t.Context(), s.EpochKey(0), ahead, 0)
	first, second := take(t, s.Leases, 0, "a", time.Minute), take(t, s.Leases, 0, "a", time.Minute)
	if first != ahead+1 || second != ahead+2 {
		t.Errorf("epochs %d and %d after %d", first, second, ahead)
	}
}

func TestFormerOwnersWritesAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx := t.Context()
	account := accountIn(s, 3)
	log := openLog(t, s, LogOptions{})
	former := take(t, s.Leases, 3, "a", time.Minute)
	if err := s.Leases.ReleaseLease(ctx, 3, "a", former); err != nil {
		t.Fatal(err)
	}
	owner := take(t, s.Leases, 3, "b", time.Minute)
	for _, w := range []struct {
		name  string
		write func(epoch int64) error
	}{
		{"position", func(e int64) error { return s.Positions.StoreOwnerPosition(ctx, 3, e, signal.Position{MS: e}) }},
		{"event", func(e int64) error {
			c := noted(account, "late")
			c.Epoch = e
			_, err := log.Append(ctx, c)
			return err
		}},
	} {
		wantKind(t, w.name+" of the former owner", w.write(former), signal.KindConflict)
		if err := w.write(owner); err != nil {
			t.Errorf("%s of the owner: %v", w.name, err)
		}
	}
	if got, err := s.Positions.OwnerPosition(ctx, 3); got != (signal.Position{MS: owner}) || err != nil {
		t.Errorf("OwnerPosition: %v, %v", got, err)
	}
	if got, err := s.Positions.OwnerPosition(ctx, 2); !got.IsZero() || err != nil {
		t.Errorf("OwnerPosition of a partition without: %v, %v", got, err)
	}
}
