package eventlog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

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
		if d := cmp.Diff(want, got.Live); d != "" { // in the order of their names
			t.Errorf("live nodes (-want +got):\n%s", d)
		}
	}
	announce("a", false, "a")
	announce("b", false, "a", "b")
	announce("a", false, "a", "b")
	_, err := s.AnnounceNode(ctx, "c", time.Minute, true)
	wantKind(t, "a node that would be alone beside others", err, signal.KindConflict)
	announce("b", false, "a", "b")
	// One that is refused is no longer live.
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
	advice := "cluster: true: set it for both, stop one, or give one another redis.url"
	if err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("the error does not name the setting: %v", err)
	}

	// A node that has not announced itself in time is no longer live.
	server.Client().ZAdd(ctx, s.NodesKey(), storetest.DueAt(time.Now().Add(-time.Millisecond), "a alone"))
	announce("b", false, "b")
}

func TestAssignment(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	members := func() cluster.Members {
		t.Helper()
		m, err := s.AnnounceNode(ctx, "b", time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := members(); m.Assignment.Version != 0 || m.ByHash {
		t.Errorf("before an assignment: %+v", m)
	}
	a := cluster.Assignment{Version: 1, Nodes: []string{"a", "b"}, Owners: []string{"b", "a", "b", "b"}}
	store := func(version int64, want bool) {
		t.Helper()
		a.Version = version
		if stored, err := s.AssignPartitions(ctx, a); stored != want || err != nil {
			t.Errorf("version %d: stored %v, %v", version, stored, err)
		}
	}
	store(2, false)
	store(1, true)
	if d := cmp.Diff(a, members().Assignment); d != "" {
		t.Errorf("assignment (-want +got):\n%s", d)
	}
	store(1, false)
	store(3, false)
	store(2, true)
	// A node of an earlier build.
	server.Client().ZAdd(ctx, s.NodesKey(), storetest.DueAt(time.Now().Add(time.Minute), "a many"))
	if m := members(); !m.ByHash || !slices.Equal(m.Live, []string{"a", "b"}) {
		t.Errorf("beside a node that hashes: %+v", m)
	}
	server.Client().HSet(ctx, s.AssignmentKey(), "owners", "0 7")
	if m, err := s.AnnounceNode(ctx, "b", time.Minute, false); err == nil {
		t.Errorf("a broken assignment is taken: %+v", m)
	}
}

func TestInstallationFixesThePartitions(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	for range 2 {
		if err := s.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 8}).Install(t.Context())
	wantKind(t, "Install with 8 partitions where there are 4", err, signal.KindConflict)
	server.Kill()
	wantKind(t, "Install without Redis", s.Install(t.Context()), signal.KindUnavailable)
}

// TestAnnouncementsKeepTheInstallation: Redis may lose its data, or get those of another installation, while
// nodes run.
func TestAnnouncementsKeepTheInstallation(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	rdb := server.Client()
	announce := func() error {
		_, err := s.AnnounceNode(t.Context(), "a", time.Minute, false)
		return err
	}
	for range 2 {
		rdb.FlushAll(t.Context())
		if err := announce(); err != nil {
			t.Fatal(err)
		}
		if got := rdb.HGet(t.Context(), s.InstallationKey(), "partitions").Val(); got != "4" {
			t.Errorf("the record is %q after an announcement", got)
		}
	}
	// A node that starts now finds the installation of those that run.
	o, err := redisclient.Installed(t.Context(), redisclient.Options{URL: server.URL()})
	if err != nil || o.Partitions != 4 || o.EvenSlots {
		t.Errorf("a node that starts uses %d partitions, even %v, %v", o.Partitions, o.EvenSlots, err)
	}
	rdb.HSet(t.Context(), s.InstallationKey(), "partitions", "4 even")
	err = announce()
	storetest.WantError(t, err, signal.KindConflict, "other_partitions")
	if n := rdb.ZCard(t.Context(), s.NodesKey()).Val(); n != 0 {
		t.Errorf("%d nodes are live", n)
	}
}
