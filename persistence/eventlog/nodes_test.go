package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
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
		if d := cmp.Diff(want, got); d != "" { // in the order of their names
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
	server.Client().ZAdd(ctx, redisclient.NodesKey(), storetest.DueAt(time.Now().Add(-time.Millisecond), "a alone"))
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
	err := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 8}).Install(t.Context())
	wantKind(t, "Install with 8 partitions where there are 4", err, signal.KindConflict)
	server.Kill()
	wantKind(t, "Install without Redis", s.Install(t.Context()), signal.KindUnavailable)
}
