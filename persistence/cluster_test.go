package persistence

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// clusterBench is a store with a log on a Redis Cluster.
type clusterBench struct {
	cluster *redistest.Cluster
	store   *Store
	log     *eventlog.Log
}

// newClusterBench starts a cluster of three masters.
func newClusterBench(t *testing.T) *clusterBench {
	t.Helper()
	cluster := redistest.NewCluster(t, 3)
	metrics := redisclient.NewMetrics(prometheus.NewRegistry())
	s := openStore(t, Options{URL: cluster.URL(), Metrics: metrics})
	return &clusterBench{cluster, s, openLog(t, s, eventlog.LogOptions{AppendTimeout: 10 * time.Second})}
}

// All keys of a command or script must lie in one slot. A single server does not check that,
// so this test uses every kind of record once. What the records promise is tested on a
// single server. Each script is then run again while its slot is being moved.
func TestOnCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	b := newClusterBench(t)
	if err := b.store.Client.Readiness.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Client.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := &scriptCalls{rdb: b.cluster.Client(), calls: map[string]scriptCall{}}
	b.store.Client.RDB.AddHook(calls)
	t.Run("leases", b.testLeases) // before others append to all logs
	t.Run("records", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"log": b.testLog, "nodes": b.testNodes, "due runs": b.testDueRuns,
			"erasing": b.testErasing, "trimming": b.testTrimming, "jobs": b.testJobs, "replies": b.testReplies,
			"market": b.testMarket, "accounts": b.testAccounts, "keys": b.testKeys, "sessions": b.testSessions,
			"limits": b.testLimits, "gauges": b.testGauges, "webhooks": b.testWebhooks,
			"leaves": b.testLeaves,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	t.Run("slots that move", func(t *testing.T) { calls.repeatWhileSlotsMove(t, b.cluster) })
}

// followAll returns when subscribers of tail get the events of all partitions.
func followAll(tb testing.TB, tail *eventlog.Tail, partitions int) {
	tb.Helper()
	for p := range partitions {
		follower := tail.For(eventlog.Owned)
		follower.Follow(p)
		if err := follower.Await(tb.Context(), p); err != nil {
			tb.Fatal(err)
		}
	}
}

// testLog covers the log, the tail and the reading of both logs.
func (b *clusterBench) testLog(t *testing.T) {
	tail := eventlog.NewTail(b.store.Logs, eventlog.TailOptions{})
	seen := make(chan signal.Event, 100_000)
	tail.Subscribe(func(_ int, events []signal.Event) {
		for _, e := range events {
			seen <- e
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- tail.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	followAll(t, tail, b.store.Client.Partitions())

	check := func(p int) {
		t.Helper()
		account := storetest.AccountIn(b.store.Client, p)
		sig := storetest.Signal(account)
		at, err := b.log.Append(t.Context(), storetest.Created(sig))
		if err != nil {
			t.Fatal(err)
		}
		if head, err := tail.Head(t.Context(), p); err != nil || head.Compare(at.Plus(1)) < 0 {
			t.Errorf("head of partition %d is %v, %v; want %v", p, head, err, at.Plus(1))
		}
		if err := tail.Wait(t.Context(), p, at.Plus(1)); err != nil {
			t.Error(err)
		}
		for seenOwn := 0; seenOwn < 2; {
			if e := <-seen; e.Account == account {
				seenOwn++
			}
		}
		events, err := b.store.Logs.ReadLog(t.Context(), p, at, 1)
		if err != nil || len(events) != 1 || events[0].Account != account {
			t.Errorf("events of partition %d: %v, %v", p, events, err)
		}
		if retained, _, err := b.store.Logs.Retains(t.Context(), p, at); !retained || err != nil {
			t.Errorf("retains of partition %d: %v, %v", p, retained, err)
		}
		if _, err := b.store.Signals.SignalByID(t.Context(), account, sig.ID, at, signal.Position{}); err != nil {
			t.Errorf("signal of partition %d: %v", p, err)
		}
		passed := map[signal.SignalID]bool{}
		scan := func(e signal.LogEntry) error { passed[signal.SignalIDFromBytes(e.ULID)] = true; return nil }
		err = b.store.Signals.ScanSignals(t.Context(), p, scan)
		if !passed[sig.ID] || err != nil {
			t.Errorf("pass over partition %d: %v, %v", p, passed, err)
		}
		open := 0
		count := func(signal.Signal, signal.Position) error { open++; return nil }
		err = b.store.Signals.OpenSignals(t.Context(), p, count)
		if err != nil || open == 0 {
			t.Errorf("open signals of partition %d: %d, %v", p, open, err)
		}
	}
	for p := range b.store.Client.Partitions() {
		check(p)
	}
	b.cluster.Move(b.store.Client.EventsKey(3))
	check(3)
}

func (b *clusterBench) testLeases(t *testing.T) {
	s, ctx := b.store, t.Context()
	var leases []cluster.Lease
	for p := 8; p < s.Client.Partitions(); p++ { // erasing and trimming take the leases of other partitions
		leases = append(leases, cluster.Lease{Partition: p, Epoch: take(t, s, p)})
	}
	for range 2 { // the servers may not know the script
		for _, err := range s.Logs.Leases.RenewLeases(ctx, "a", leases, time.Minute) {
			if err != nil {
				t.Errorf("renew: %v", err)
			}
		}
	}
	after := map[int]signal.Position{}
	for p := range s.Client.Partitions() {
		after[p] = signal.Position{}
	}
	last, err := b.log.Append(ctx, storetest.Noted(storetest.AccountIn(s.Client, 9), "newest"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Logs.Positions.ContinuedLogs(ctx, after); !slices.Contains(got, 9) || err != nil {
		t.Errorf("logs that go on: %v, %v", got, err)
	}
	after[9] = last
	if got, err := s.Logs.Positions.ContinuedLogs(ctx, after); slices.Contains(got, 9) || err != nil {
		t.Errorf("logs that go on after the last event of partition 9: %v, %v", got, err)
	}
	at := signal.Position{MS: 5, Seq: 7}
	for i, l := range leases {
		p, epoch := l.Partition, l.Epoch
		leases[i].Position = at
		if err := s.Logs.Positions.StoreOwnerPosition(ctx, p, epoch, at); err != nil {
			t.Errorf("store position: %v", err)
		}
		if got, err := s.Logs.Positions.OwnerPosition(ctx, p); got != at || err != nil {
			t.Errorf("position is %v, %v; want %v", got, err, at)
		}
		if _, owner, err := s.Logs.Leases.TakeLease(ctx, p, "b", time.Minute); owner != "a" || err != nil {
			t.Errorf("another node finds the owner %q, %v", owner, err)
		}
	}
	if err := s.Logs.Leases.ReleaseLeases(ctx, "a", leases); err != nil {
		t.Errorf("release: %v", err)
	}
	for _, l := range leases {
		p, epoch := l.Partition, l.Epoch
		storetest.Take(t, s.Logs.Leases, p, "b", time.Minute)
		if node, newer, err := s.Logs.Leases.Owner(ctx, p); node != "b" || newer <= epoch || err != nil {
			t.Errorf("owner is %s with epoch %d, %v", node, newer, err)
		}
		err := s.Logs.Positions.StoreOwnerPosition(ctx, p, epoch, at)
		storetest.WantKind(t, "a position of the former owner", err, signal.KindConflict)
		// The epoch also fences appends.
		fenced := storetest.Noted(storetest.AccountIn(s.Client, p), "late")
		fenced.Epoch = epoch
		_, err = b.log.Append(ctx, fenced)
		storetest.WantKind(t, "an append of the former owner", err, signal.KindConflict)
	}
}

func (b *clusterBench) testNodes(t *testing.T) {
	ctx := t.Context()
	for range 2 {
		if err := b.store.Client.Installation.Install(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range []string{"a", "b"} {
		if m, err := b.store.Logs.Nodes.AnnounceNode(ctx, node, time.Minute, false); len(m.Live) != i+1 || err != nil {
			t.Errorf("live nodes: %v, %v", m.Live, err)
		}
	}
	assignment := cluster.Assignment{Version: 1, Nodes: []string{"b"}, Owners: []string{"b"}}
	if stored, err := b.store.Logs.Nodes.AssignPartitions(ctx, assignment); !stored || err != nil {
		t.Errorf("assign: %v, %v", stored, err)
	}
	if nodes, _, err := b.store.Logs.Nodes.List(ctx); len(nodes) != 2 || err != nil {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
	if live, err := b.store.Logs.Nodes.ProcessLive(ctx, "b", b.store.Client.Nonce); !live || err != nil {
		t.Errorf("the process is live: %v, %v", live, err)
	}
	if err := b.store.Logs.Nodes.LeaveNode(ctx, "a"); err != nil {
		t.Error(err)
	}
	if m, err := b.store.Logs.Nodes.AnnounceNode(ctx, "b", time.Minute, true); len(m.Live) != 1 || err != nil {
		t.Errorf("live nodes: %v, %v", m.Live, err)
	}
	b.store.Logs.Nodes.LeaveNode(ctx, "b")
}

func (b *clusterBench) testDueRuns(t *testing.T) {
	account := storetest.AccountIn(b.store.Client, 5)
	due := &signal.RunDue{Run: signal.NewRunID(), Agent: "trading", At: time.Now().Add(-time.Second)}
	events := func(kind signal.EventType) []signal.Event {
		return []signal.Event{{Type: kind, Run: due.Run, Agent: due.Agent}}
	}
	start := signal.Change{Account: account, Due: due, Events: events(signal.AgentStarted)}
	if _, err := b.log.Append(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	runs, err := b.store.Signals.OverdueRuns(t.Context(), 5, time.Now(), 10)
	if err != nil || len(runs) != 1 || runs[0].Run != due.Run {
		t.Errorf("overdue: %v, %v", runs, err)
	}
	end := signal.Change{Account: account, Ended: due.Run, Events: events(signal.AgentCompleted)}
	if _, err := b.log.Append(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if runs, err := b.store.Signals.OverdueRuns(t.Context(), 5, time.Now(), 10); err != nil || len(runs) != 0 {
		t.Errorf("overdue after the end: %v, %v", runs, err)
	}
}

func (b *clusterBench) testErasing(t *testing.T) {
	s, ctx := b.store, t.Context()
	deleted, other := storetest.AccountIn(s.Client, 1), storetest.AccountIn(s.Client, 1)
	epoch := take(t, s, 1)
	for i := range 3 {
		fillAccount(t, s, b.log, epoch, deleted, i)
		fillAccount(t, s, b.log, epoch, other, i)
	}
	before := eraseState(t, s, other)
	if err := s.Eraser.BeginErase(ctx, 1, epoch, deleted, s.Client.Now().Add(-2*eraseGrace)); err != nil {
		t.Fatal(err)
	}
	if wait := eraseAll(t, s, epoch); wait >= 0 {
		t.Errorf("there is more to do in %v", wait)
	}
	for kind, n := range eraseState(t, s, deleted) {
		if n != 0 {
			t.Errorf("%d %s are left of the deleted account", n, kind)
		}
	}
	if d := cmp.Diff(before, eraseState(t, s, other)); d != "" {
		t.Errorf("records of the other account (-want +got):\n%s", d)
	}
}

func (b *clusterBench) testTrimming(t *testing.T) {
	s, ctx := b.store, t.Context()
	epoch := take(t, s, 2)
	at, err := b.log.Append(ctx, storetest.Created(storetest.Signal(storetest.AccountIn(s.Client, 2))))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Logs.Positions.StoreOwnerPosition(ctx, 2, epoch, at); err != nil {
		t.Fatal(err)
	}
	trimAll := eventlog.TrimOptions{Keep: time.Nanosecond, MaxEntries: 1, Retention: time.Nanosecond}
	trimmer := eventlog.NewTrimmer(s.Logs, trimAll)
	if err := trimmer.TrimEvents(ctx, 2, epoch); err != nil {
		t.Errorf("trim events: %v", err)
	}
	storetest.WantKind(t, "trimming by a former owner", trimmer.TrimEvents(ctx, 2, epoch-1), signal.KindConflict)
	if err := trimmer.TrimSignals(ctx, 2, epoch); err != nil {
		t.Errorf("trim signals: %v", err)
	}
}

func (b *clusterBench) testLimits(t *testing.T) {
	for _, who := range []string{"a", "b", "c", "d", "e"} { // in different slots
		taken := 0
		for range 3 {
			n, _, err := b.store.Requests.TakeTokens(t.Context(), "runs", who, 5, time.Hour, 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			taken += n
		}
		if taken != 5 {
			t.Errorf("%d tokens of 5 were taken", taken)
		}
	}
}

func (b *clusterBench) testGauges(t *testing.T) {
	change := storetest.Created(storetest.Signal(storetest.AccountIn(b.store.Client, 6)))
	if _, err := b.log.Append(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Gauges.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testutil.ToFloat64(b.store.Gauges.streams.length.WithLabelValues("signals", "")); n < 1 {
		t.Errorf("the gauge shows %v signals", n)
	}
	if n := testutil.ToFloat64(b.store.Gauges.sizes.bytes.WithLabelValues("06")); n < 100 {
		t.Errorf("partition 6 has %v bytes", n)
	}
}
