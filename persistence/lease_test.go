package persistence

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

func TestLeaseHasOneOwner(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	first := take(t, s, 1, "a", time.Minute)
	epoch, owner, err := s.TakeLease(ctx, 1, "b", time.Minute)
	if epoch != 0 || owner != "a" || err != nil {
		t.Errorf("b takes a lease that a holds: epoch %d, owner %q, %v", epoch, owner, err)
	}
	if other := take(t, s, 2, "b", time.Minute); other == 0 {
		t.Error("the lease of another partition was refused")
	}
	if err := s.RenewLease(ctx, 1, "a", first, 2*time.Minute); err != nil {
		t.Errorf("a renews: %v", err)
	}
	if ttl := server.Client().PTTL(ctx, redisclient.OwnerKey(1)).Val(); ttl < 90*time.Second || ttl > 2*time.Minute {
		t.Errorf("the renewed lease lasts %v, want about 2 minutes", ttl)
	}
	wantKind(t, "b renews", s.RenewLease(ctx, 1, "b", first, time.Minute), signal.KindConflict)
	if node, held, err := s.Owner(ctx, 1); node != "a" || held != first || err != nil {
		t.Errorf("Owner: %q, %d, %v", node, held, err)
	}

	// A restarted node does not wait for its own lease, and its epoch is new.
	second := take(t, s, 1, "a", time.Minute)
	if second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
	wantKind(t, "the process before the restart renews", s.RenewLease(ctx, 1, "a", first, time.Minute), signal.KindConflict)
	if err := s.ReleaseLease(ctx, 1, "a", first); err != nil {
		t.Errorf("release by a former owner: %v", err)
	}
	if node, _, _ := s.Owner(ctx, 1); node != "a" {
		t.Errorf("a former owner's release took the lease from its successor: owner %q", node)
	}
	if err := s.ReleaseLease(ctx, 1, "a", second); err != nil {
		t.Errorf("release: %v", err)
	}
	if node, held, err := s.Owner(ctx, 1); node != "" || held != 0 || err != nil {
		t.Errorf("Owner after the release: %q, %d, %v", node, held, err)
	}
	if third := take(t, s, 1, "b", time.Minute); third <= second {
		t.Errorf("epoch %d after %d", third, second)
	}
}

func TestLeaseEndsWithItsTime(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	first := take(t, s, 0, "a", 20*time.Millisecond)
	var second int64
	for deadline := time.Now().Add(10 * time.Second); second == 0 && time.Now().Before(deadline); {
		second, _, _ = s.TakeLease(t.Context(), 0, "b", time.Minute)
	}
	if second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
	wantKind(t, "renewal of a lease that ran out", s.RenewLease(t.Context(), 0, "a", first, time.Minute), signal.KindConflict)
}

// A Redis that lost its newest writes must not give an epoch twice.
func TestEpochIsNewAfterALoss(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	first := take(t, s, 0, "a", time.Minute)
	server.Client().Del(t.Context(), redisclient.EpochKey(0), redisclient.OwnerKey(0))
	for deadline := time.Now().Add(10 * time.Second); s.Now().UnixMilli() <= first && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if second := take(t, s, 0, "b", time.Minute); second <= first {
		t.Errorf("epoch %d after %d", second, first)
	}
}

// TestEpochsAscendWhateverTheClock: Redis' clock may be behind the last epoch, as after a
// failover to a host whose clock is.
func TestEpochsAscendWhateverTheClock(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	for _, key := range []string{redisclient.EpochKey(0), redisclient.FeederEpochKey()} {
		server.Client().Set(t.Context(), key, ahead, 0)
	}
	if first, second := take(t, s, 0, "a", time.Minute), take(t, s, 0, "a", time.Minute); first != ahead+1 || second != ahead+2 {
		t.Errorf("epochs %d and %d after %d", first, second, ahead)
	}
	m := NewMarket(s)
	for i := range int64(2) {
		if epoch, _, err := m.TakeLease(t.Context(), "a", time.Minute); epoch != ahead+1+i || err != nil {
			t.Errorf("the feeder's epoch is %d, %v; want %d", epoch, err, ahead+1+i)
		}
	}
}

func TestFormerOwnersWritesAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := leaseStore(t)
	ctx := t.Context()
	account := accountIn(s, 3)
	log := NewLog(s, eventlog.LogOptions{})
	t.Cleanup(func() { log.Close(context.Background()) })
	former := take(t, s, 3, "a", time.Minute)
	s.ReleaseLease(ctx, 3, "a", former)
	owner := take(t, s, 3, "b", time.Minute)
	for _, w := range []struct {
		name  string
		write func(epoch int64) error
	}{
		{"position", func(e int64) error { return s.StoreEnginePosition(ctx, 3, e, signal.Position{MS: e}) }},
		{"erasing", func(e int64) error { return s.BeginErase(ctx, 3, e, account, time.Now()) }},
		{"event", func(e int64) error {
			_, err := log.Append(ctx, signal.Change{Account: account, Epoch: e, Events: []signal.Event{{Type: signal.AgentFailed}}})
			return err
		}},
	} {
		wantKind(t, w.name+" of the former owner", w.write(former), signal.KindConflict)
		if err := w.write(owner); err != nil {
			t.Errorf("%s of the owner: %v", w.name, err)
		}
	}
	if got, err := s.EnginePosition(ctx, 3); got != (signal.Position{MS: owner}) || err != nil {
		t.Errorf("EnginePosition: %v, %v", got, err)
	}
	if got, err := s.EnginePosition(ctx, 2); !got.IsZero() || err != nil {
		t.Errorf("EnginePosition of a partition without: %v, %v", got, err)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	announce := func(node string, alone bool, want ...string) {
		t.Helper()
		got, err := s.AnnounceNode(ctx, node, time.Minute, alone)
		if err != nil {
			t.Fatalf("announce %s: %v", node, err)
		}
		if d := cmp.Diff(want, got); d != "" { // in one order, whoever was announced last
			t.Errorf("live nodes (-want +got):\n%s", d)
		}
	}
	announce("a", false, "a")
	announce("b", false, "a", "b")
	announce("a", false, "a", "b")
	_, err := s.AnnounceNode(ctx, "c", time.Minute, true)
	wantKind(t, "a node that would be alone beside others", err, signal.KindConflict)
	announce("b", false, "a", "b")
	// One that is refused is live no longer.
	_, err = s.AnnounceNode(ctx, "b", time.Minute, true)
	wantKind(t, "a node that would be alone and was not before", err, signal.KindConflict)
	announce("a", false, "a")
	announce("b", false, "a", "b")

	if err := s.LeaveNode(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	announce("a", false, "a")
	announce("a", true, "a") // restarted with another setting
	_, err = s.AnnounceNode(ctx, "b", time.Minute, false)
	wantKind(t, "a second node beside one that is alone", err, signal.KindConflict)
	if err == nil || !strings.Contains(err.Error(), "cluster: true: set it for both, stop one, or give one another redis.url") {
		t.Errorf("the error does not name the setting: %v", err)
	}

	// A node that has not announced itself in time is gone.
	server.Client().ZAdd(ctx, redisclient.NodesKey(), zAt(time.Now().Add(-time.Millisecond), "a alone"))
	announce("b", false, "b")
}

func TestInstallationFixesThePartitions(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	for range 2 {
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := openStore(t, Options{URL: server.URL(), Partitions: 8}).Install(t.Context())
	wantKind(t, "Install with 8 partitions where there are 4", err, signal.KindConflict)
	server.Kill()
	wantKind(t, "Install without Redis", s.Install(t.Context()), signal.KindUnavailable)
}

func TestNodeIDIsKeptAndLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	n, err := OpenNodeID(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNodeID(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second use of the directory: %v", err)
	}
	id := n.String()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenNodeID(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.String() != id || !strings.HasPrefix(id, "node_") {
		t.Errorf("ids %q, then %q", id, again)
	}
	other, err := OpenNodeID(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.String() == id {
		t.Error("two directories have the same id")
	}
}

func TestNodeIDRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"two words": "node one\n", "a control character": "a\x00b", "too long": strings.Repeat("x", 65)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, nodeFile), text)
			if n, err := OpenNodeID(dir); err == nil {
				t.Errorf("accepted as %q", n)
			}
		})
	}
}
