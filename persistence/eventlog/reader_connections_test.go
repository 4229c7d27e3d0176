package eventlog

import (
	"maps"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestConnectionsOfReadersAreShared(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	for _, node := range []string{"a", "b", "c"} {
		_, err := s.Nodes.AnnounceNode(t.Context(), node, time.Minute, false)
		wantNoError(t, err)
	}
	a, b, c := NewReaderConnections(s.Client, "a"), NewReaderConnections(s.Client, "b"), NewReaderConnections(s.Client, "c")
	publish := func(nodes ...*ReaderConnections) {
		t.Helper()
		for _, r := range nodes {
			wantNoError(t, r.Publish(t.Context()))
		}
	}
	elsewhere := func(what string, r *ReaderConnections, want map[signal.KeyID]int) {
		t.Helper()
		got, err := r.Elsewhere(t.Context(), "ann", "bob")
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	none := map[signal.KeyID]int{}
	elsewhere("before all", a, none)
	a.Share("ann", 2)
	b.Share("ann", 1)
	b.Share("bob", 3)
	elsewhere("not published", a, none)
	publish(a, b, c)
	elsewhere("for the first node", a, map[signal.KeyID]int{"ann": 1, "bob": 3})
	elsewhere("for the third node", c, map[signal.KeyID]int{"ann": 3, "bob": 3})
	b.Share("ann", 0)
	b.Share("bob", 1)
	publish(b)
	elsewhere("after changes", c, map[signal.KeyID]int{"ann": 2, "bob": 1})

	// What Redis has lost is published again, with what has changed since.
	wantNoError(t, server.Client().Del(t.Context(), s.NodeReadersKey("a")).Err())
	elsewhere("lost", c, map[signal.KeyID]int{"bob": 1})
	a.Share("bob", 1)
	publish(a) // sees the change alone
	wantNoError(t, server.Client().Del(t.Context(), s.NodeReadersKey("a")).Err())
	publish(a, a) // sees that it is lost, then all
	elsewhere("published again", c, map[signal.KeyID]int{"ann": 2, "bob": 2})

	// A node that is no longer live does not count, nor one that has stopped publishing.
	wantNoError(t, s.Nodes.LeaveNode(t.Context(), "b"))
	elsewhere("without the second node", c, map[signal.KeyID]int{"ann": 2, "bob": 1})
	if d := server.Client().PTTL(t.Context(), s.NodeReadersKey("a")).Val(); d <= 0 || d > readersFor {
		t.Errorf("the numbers of a node are kept for %v", d)
	}
}

func TestConnectionsOfReadersAreSharedAfterFailures(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	_, err := s.Nodes.AnnounceNode(t.Context(), "a", time.Minute, false)
	wantNoError(t, err)
	a, b := NewReaderConnections(s.Client, "a"), NewReaderConnections(s.Client, "b")
	a.Share("ann", 1)
	wantNoError(t, a.Publish(t.Context()))
	a.Share("bob", 2)
	server.Client().Set(t.Context(), s.NodeReadersKey("a"), "no hash", 0)
	if a.Publish(t.Context()) == nil {
		t.Error("no error where the numbers cannot be written")
	}
	if _, err := b.Elsewhere(t.Context(), "ann"); err == nil {
		t.Error("no error where the numbers cannot be read")
	}
	wantNoError(t, a.Publish(t.Context()))
	got, err := b.Elsewhere(t.Context(), "ann", "bob")
	if err != nil || got["ann"] != 1 || got["bob"] != 2 {
		t.Errorf("after a failure: %v, %v", got, err)
	}
}
