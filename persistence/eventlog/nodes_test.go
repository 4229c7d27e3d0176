package eventlog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	ctx := t.Context()
	announce := func(node string, alone bool, want ...string) {
		t.Helper()
		got, err := s.Nodes.AnnounceNode(ctx, node, time.Minute, alone)
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
	_, err := s.Nodes.AnnounceNode(ctx, "c", time.Minute, true)
	wantKind(t, "a node that would be alone beside others", err, signal.KindConflict)
	announce("b", false, "a", "b")
	// One that is refused is no longer live.
	_, err = s.Nodes.AnnounceNode(ctx, "b", time.Minute, true)
	wantKind(t, "a node that would be alone and was not before", err, signal.KindConflict)
	announce("a", false, "a")
	announce("b", false, "a", "b")

	if err := s.Nodes.LeaveNode(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	announce("a", false, "a")
	announce("a", true, "a") // restarted with another setting
	_, err = s.Nodes.AnnounceNode(ctx, "b", time.Minute, false)
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
		m, err := s.Nodes.AnnounceNode(ctx, "b", time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := members(); m.Assignment.Version != 0 {
		t.Errorf("before an assignment: %+v", m)
	}
	a := cluster.Assignment{Version: 1, Nodes: []string{"a", "b"}, Owners: []string{"b", "a", "b", "b"}}
	store := func(version int64, want bool) {
		t.Helper()
		a.Version = version
		if stored, err := s.Nodes.AssignPartitions(ctx, a); stored != want || err != nil {
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
	server.Client().ZAdd(ctx, s.NodesKey(), storetest.DueAt(time.Now().Add(time.Minute), "a "+cluster.ModeAssigned))
	if m := members(); !slices.Equal(m.Live, []string{"a", "b"}) {
		t.Errorf("beside another node: %+v", m)
	}
	server.Client().HSet(ctx, s.AssignmentKey(), "owners", "0 7")
	if m, err := s.Nodes.AnnounceNode(ctx, "b", time.Minute, false); err == nil {
		t.Errorf("a broken assignment is taken: %+v", m)
	}
}

func TestInstallationFixesThePartitions(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	for range 2 {
		if err := s.Installation.Install(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 8}).Installation.Install(t.Context())
	wantKind(t, "Install with 8 partitions where there are 4", err, signal.KindConflict)
	server.Kill()
	wantKind(t, "Install without Redis", s.Installation.Install(t.Context()), signal.KindUnavailable)
}

// sibling returns the store of another process that uses the Redis of s.
func sibling(t *testing.T, server *redistest.Server, profile cluster.Profile) *Store {
	t.Helper()
	s := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 4})
	s.Nodes.Profile = profile
	return s
}

// wantRefusal checks that an announcement was refused because of a live node.
func wantRefusal(t *testing.T, what string, err error, code, node, sentence string) {
	t.Helper()
	wantKind(t, what, err, signal.KindConflict)
	r, refused := errors.AsType[*cluster.Refusal](err)
	if !refused || r.Node != node || signal.CodeOf(err) != code || !strings.Contains(err.Error(), sentence) {
		t.Errorf("%s is refused with %v, want %s because of %s, %q", what, err, code, node, sentence)
	}
}

func TestANodeIsOneProcess(t *testing.T) {
	t.Parallel()
	_, server := leaseStore(t)
	ctx := t.Context()
	first, second := sibling(t, server, cluster.Profile{}), sibling(t, server, cluster.Profile{})
	announce := func(s *Store) error {
		_, err := s.Nodes.AnnounceNode(ctx, "a", time.Minute, false)
		return err
	}
	live := func() string { return server.Client().HGet(ctx, first.ProcessesKey(), "a").Val() }
	wantNoError(t, announce(first))
	wantNoError(t, announce(first))
	before := live()
	wantRefusal(t, "a second process", announce(second), cluster.CodeOtherProcess, "a", "remove the file \"node\"")
	// It neither changes nor withdraws the announcement of the first.
	wantNoError(t, second.Nodes.LeaveNode(ctx, "a"))
	if after := live(); after != before {
		t.Errorf("the refused process changed %q to %q", before, after)
	}
	wantNoError(t, first.Nodes.LeaveNode(ctx, "a"))
	wantNoError(t, announce(second))
	wantRefusal(t, "the first again", announce(first), cluster.CodeOtherProcess, "a", "")

	// A process that has the same data directory locked has proved that the other has ended.
	third := sibling(t, server, cluster.Profile{Place: "here"})
	wantNoError(t, second.Nodes.LeaveNode(ctx, "a"))
	wantNoError(t, announce(third))
	elsewhere := sibling(t, server, cluster.Profile{Place: "there"})
	wantRefusal(t, "a copy", announce(elsewhere), cluster.CodeOtherProcess, "a", "")
	again := sibling(t, server, cluster.Profile{Place: "here"})
	wantNoError(t, announce(again))
	wantRefusal(t, "its former process", announce(elsewhere), cluster.CodeOtherProcess, "a", "")

	// A process of a build that publishes nothing renews the announcement without a nonce.
	server.Client().ZAdd(ctx, first.NodesKey(), storetest.DueAt(time.Now().Add(time.Hour), "a assigned"))
	wantRefusal(t, "beside an earlier build", announce(again), cluster.CodeOtherProcess, "a", "")
	wantNoError(t, again.Nodes.ForgetNodes(ctx))
	wantNoError(t, announce(second))
}

func TestNodesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	_, server := leaseStore(t)
	ctx := t.Context()
	profile := func(lease string, keys ...string) cluster.Profile {
		return cluster.Profile{Traits: []cluster.Trait{
			{Setting: "lease", Values: []string{lease}},
			{Setting: "auth.jwt_keys", Values: keys, Secret: true},
		}}
	}
	announce := func(s *Store, node string) error {
		_, err := s.Nodes.AnnounceNode(ctx, node, time.Minute, false)
		return err
	}
	a := sibling(t, server, profile("5s", "k1"))
	wantNoError(t, announce(a, "a"))
	wantRefusal(t, "another lease", announce(sibling(t, server, profile("6s", "k1")), "b"), cluster.CodeMisfit, "a",
		"lease: this node has 6s, and node a has 5s")
	wantRefusal(t, "other keys", announce(sibling(t, server, profile("5s", "k2", "k")), "b"), cluster.CodeMisfit, "a",
		"auth.jwt_keys: node a has none of the keys")
	// Keys are rotated by nodes that have both.
	both := sibling(t, server, profile("5s", "k2", "k1"))
	wantNoError(t, announce(both, "b"))
	rotated := sibling(t, server, profile("5s", "k2"))
	wantRefusal(t, "the new key beside the old one", announce(rotated, "c"), cluster.CodeMisfit, "a", "auth.jwt_keys")
	wantNoError(t, a.Nodes.LeaveNode(ctx, "a"))
	wantNoError(t, announce(rotated, "c"))
	// A node that publishes nothing, or something else, is accepted.
	wantNoError(t, announce(sibling(t, server, cluster.Profile{}), "d"))
	server.Client().ZAdd(ctx, a.NodesKey(), storetest.DueAt(time.Now().Add(time.Hour), "e assigned"))
	later := cluster.Profile{Traits: []cluster.Trait{{Setting: "something", Values: []string{"new"}}}}
	wantNoError(t, announce(sibling(t, server, later), "f"))
	// What an earlier process has published does not count for a build that publishes nothing.
	server.Client().HSet(ctx, a.ProcessesKey(), "e", "1 nonce -\nlease 7s\n")
	wantNoError(t, announce(both, "b"))
	wantNoError(t, announce(sibling(t, server, profile("5s", "k2")), "g"))
	if server.Client().HExists(ctx, a.ProcessesKey(), "e").Val() {
		t.Error("a process that has ended is kept")
	}
	for _, node := range []string{"b", "c", "d", "e", "f", "g"} {
		server.Client().ZRem(ctx, a.NodesKey(), node+" assigned")
	}
	wantNoError(t, announce(sibling(t, server, profile("9s", "k9")), "h")) // only live nodes must agree
}

func TestInstallationFixesTheFormats(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	wantNoError(t, s.Installation.Install(t.Context()))
	server.Client().HSet(t.Context(), s.InstallationKey(), "formats", 2)
	err := s.Installation.Install(t.Context())
	wantKind(t, "Install beside later formats", err, signal.KindConflict)
	if err == nil || !strings.Contains(err.Error(), "version 2 of the formats, and this build reads version 1") {
		t.Errorf("refused with %v", err)
	}
}

func FuzzDecodeTraits(f *testing.F) {
	f.Add("lease 5s\nauth.jwt_keys a b\n")
	f.Add("\n \nx\n")
	f.Fuzz(func(t *testing.T, text string) {
		traits := decodeTraits(text)
		for _, trait := range traits {
			if trait.Setting == "" || len(trait.Values) == 0 {
				t.Errorf("%q gives %+v", text, trait)
			}
		}
		if again := decodeTraits(encodeTraits(traits)); !cmp.Equal(traits, again) {
			t.Errorf("%+v became %+v", traits, again)
		}
	})
}

func wantNoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnnouncementsKeepTheInstallation: Redis may lose its data, or get those of another installation, while
// nodes run.
func TestAnnouncementsKeepTheInstallation(t *testing.T) {
	t.Parallel()
	s, server := leaseStore(t)
	rdb := server.Client()
	announce := func() error {
		_, err := s.Nodes.AnnounceNode(t.Context(), "a", time.Minute, false)
		return err
	}
	for range 2 {
		rdb.FlushAll(t.Context())
		if err := announce(); err != nil {
			t.Fatal(err)
		}
		if got := rdb.HGet(t.Context(), s.InstallationKey(), "partitions").Val(); got != "4 even" {
			t.Errorf("the record is %q after an announcement", got)
		}
	}
	// A node that starts now finds the installation of those that run.
	o, err := redisclient.Installed(t.Context(), redisclient.Options{URL: server.URL()})
	if err != nil || o.Partitions != 4 {
		t.Errorf("a node that starts uses %d partitions, %v", o.Partitions, err)
	}
	rdb.HSet(t.Context(), s.InstallationKey(), "partitions", "5 even")
	err = announce()
	storetest.WantError(t, err, signal.KindConflict, cluster.CodeOtherPartitions)
	if n := rdb.ZCard(t.Context(), s.NodesKey()).Val(); n != 0 {
		t.Errorf("%d nodes are live", n)
	}
}

// TestAnnouncementsKnowTheInstallation by its id, if the form is the same: the id is recorded again when Redis
// has lost it, and that of another installation is left alone.
func TestAnnouncementsKnowTheInstallation(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	rdb := server.Client()
	open := func() *Store {
		o, err := redisclient.Installed(t.Context(), redisclient.Options{URL: server.URL()})
		wantNoError(t, err)
		return openStore(t, o)
	}
	s, sibling := open(), open()
	id := s.Installation.ID()
	if id == "" || sibling.Installation.ID() != id {
		t.Fatalf("two processes of one installation have the ids %q and %q", id, sibling.Installation.ID())
	}
	announce := func(s *Store) error {
		_, err := s.Nodes.AnnounceNode(t.Context(), "a", time.Minute, false)
		return err
	}
	for name, lose := range map[string]func(){
		"nothing is lost":               func() {},
		"all is lost":                   func() { rdb.FlushAll(t.Context()) },
		"a build before there were ids": func() { rdb.HDel(t.Context(), s.InstallationKey(), "id") },
	} {
		lose()
		wantNoError(t, announce(s))
		if got := rdb.HGet(t.Context(), s.InstallationKey(), "id").Val(); got != id {
			t.Errorf("%s: the id is %q after an announcement, was %q", name, got, id)
		}
	}
	rdb.FlushAll(t.Context())
	other := open()
	wantNoError(t, announce(other))
	storetest.WantError(t, announce(s), signal.KindConflict, cluster.CodeOtherInstallation)
	storetest.WantError(t, s.Installation.Install(t.Context()), signal.KindConflict, cluster.CodeOtherInstallation)
	if n := rdb.ZCard(t.Context(), s.NodesKey()).Val(); n != 1 {
		t.Errorf("the process of the former installation has withdrawn the present one: %d nodes are live", n)
	}
	wantNoError(t, other.Installation.Install(t.Context()))
	if got := rdb.HGet(t.Context(), s.InstallationKey(), "id").Val(); got != other.Installation.ID() || got == id {
		t.Errorf("the id is %q, that of the new installation was %q", got, other.Installation.ID())
	}
}
