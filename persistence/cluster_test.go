package persistence

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// clusterBench is a store with a log on a Redis Cluster.
type clusterBench struct {
	cluster *redistest.Cluster
	store   *Store
	log     *Log
}

// newClusterBench starts a cluster of three masters.
func newClusterBench(t *testing.T) *clusterBench {
	t.Helper()
	b := &clusterBench{cluster: redistest.NewCluster(t, 3)}
	var err error
	if b.store, err = Open(Options{URL: b.cluster.URL(), Metrics: NewMetrics(prometheus.NewRegistry())}); err != nil {
		t.Fatal(err)
	}
	b.log = NewLog(b.store, LogOptions{AppendTimeout: 10 * time.Second})
	t.Cleanup(func() {
		b.log.Close(context.Background())
		b.store.Close()
	})
	return b
}

// Whatever one command or script touches must lie in one slot: a single server does
// not notice, so every kind of record is tried here once. What the records promise is
// tested on a single server.
func TestOnCluster(t *testing.T) {
	t.Parallel()
	b := newClusterBench(t)
	if err := b.store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.store.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T){
		"log": b.testLog, "leases": b.testLeases, "nodes": b.testNodes, "due runs": b.testDueRuns, "erasing": b.testErasing,
		"trimming": b.testTrimming, "jobs": b.testJobs, "replies": b.testReplies, "market": b.testMarket, "accounts": b.testAccounts,
		"keys": b.testKeys, "sessions": b.testSessions, "limits": b.testLimits, "gauges": b.testGauges,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// testLog covers the log, the tail and the reading of both logs.
func (b *clusterBench) testLog(t *testing.T) {
	tail := NewTail(b.store, TailOptions{})
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
	eventually(t, tail.Attached)

	check := func(p int) {
		t.Helper()
		account := accountIn(b.store, p)
		sig := logSignal(account)
		at, err := b.log.Append(t.Context(), created(sig))
		if err != nil {
			t.Fatal(err)
		}
		if head, err := tail.Head(t.Context(), p); err != nil || head.Compare(at.Plus(1)) < 0 {
			t.Errorf("head of partition %d is %v, %v; want %v", p, head, err, at.Plus(1))
		}
		if err := tail.Wait(t.Context(), p, at.Plus(1)); err != nil {
			t.Error(err)
		}
		for told := 0; told < 2; {
			if e := <-seen; e.Account == account {
				told++
			}
		}
		if events, complete, err := b.store.ReadEvents(t.Context(), account, at, 10); err != nil || !complete || len(events) != 1 {
			t.Errorf("events of partition %d: %d, %v, %v", p, len(events), complete, err)
		}
		if first, err := b.store.FirstEvent(t.Context(), p); err != nil || first.IsZero() {
			t.Errorf("first event of partition %d: %v, %v", p, first, err)
		}
		if _, err := b.store.SignalByID(t.Context(), account, sig.ID, at, signal.Position{}); err != nil {
			t.Errorf("signal of partition %d: %v", p, err)
		}
		passed := map[signal.SignalID]bool{}
		b.store.ScanSignals(t.Context(), p, func(e SignalEntry) error { passed[e.ID] = true; return nil })
		if !passed[sig.ID] {
			t.Errorf("pass over partition %d: %v", p, passed)
		}
		open := 0
		err = b.store.OpenSignals(t.Context(), p, func(signal.Signal, signal.Position) error { open++; return nil })
		if err != nil || open == 0 {
			t.Errorf("open signals of partition %d: %d, %v", p, open, err)
		}
	}
	for p := range b.store.Partitions() {
		check(p)
	}
	b.cluster.Move(eventsKey(3))
	check(3)
}

func (b *clusterBench) testLeases(t *testing.T) {
	s, ctx := b.store, t.Context()
	for p := 8; p < s.Partitions(); p++ { // of the others erasing and trimming need the epochs
		epoch := take(t, s, p, "a", time.Minute)
		if err := s.RenewLease(ctx, p, "a", epoch, time.Minute); err != nil {
			t.Errorf("renew: %v", err)
		}
		at := signal.Position{MS: 5, Seq: 7}
		if err := s.StoreEnginePosition(ctx, p, epoch, at); err != nil {
			t.Errorf("store position: %v", err)
		}
		if got, err := s.EnginePosition(ctx, p); got != at || err != nil {
			t.Errorf("position is %v, %v; want %v", got, err, at)
		}
		if _, owner, err := s.TakeLease(ctx, p, "b", time.Minute); owner != "a" || err != nil {
			t.Errorf("another node finds the owner %q, %v", owner, err)
		}
		if err := s.ReleaseLease(ctx, p, "a", epoch); err != nil {
			t.Errorf("release: %v", err)
		}
		take(t, s, p, "b", time.Minute)
		if node, newer, err := s.Owner(ctx, p); node != "b" || newer <= epoch || err != nil {
			t.Errorf("owner is %s with epoch %d, %v", node, newer, err)
		}
		wantKind(t, "a position of the former owner", s.StoreEnginePosition(ctx, p, epoch, at), signal.KindConflict)
		// The epoch fences what is appended, too.
		fenced := noted(accountIn(s, p), "late")
		fenced.Epoch = epoch
		_, err := b.log.Append(ctx, fenced)
		wantKind(t, "an append of the former owner", err, signal.KindConflict)
	}
}

func (b *clusterBench) testNodes(t *testing.T) {
	ctx := t.Context()
	for range 2 {
		if err := b.store.Install(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range []string{"a", "b"} {
		if live, err := b.store.AnnounceNode(ctx, node, time.Minute, false); len(live) != i+1 || err != nil {
			t.Errorf("live nodes: %v, %v", live, err)
		}
	}
	if err := b.store.LeaveNode(ctx, "a"); err != nil {
		t.Error(err)
	}
	if live, err := b.store.AnnounceNode(ctx, "b", time.Minute, true); len(live) != 1 || err != nil {
		t.Errorf("live nodes: %v, %v", live, err)
	}
	b.store.LeaveNode(ctx, "b")
}

func (b *clusterBench) testDueRuns(t *testing.T) {
	account := accountIn(b.store, 5)
	due := &signal.RunDue{Run: signal.NewRunID(), Agent: "trading", At: time.Now().Add(-time.Second)}
	events := func(kind signal.EventType) []signal.Event {
		return []signal.Event{{Type: kind, Run: due.Run, Agent: due.Agent}}
	}
	if _, err := b.log.Append(t.Context(), signal.Change{Account: account, Due: due, Events: events(signal.AgentStarted)}); err != nil {
		t.Fatal(err)
	}
	if runs, err := b.store.OverdueRuns(t.Context(), 5, time.Now(), 10); err != nil || len(runs) != 1 || runs[0].Run != due.Run {
		t.Errorf("overdue: %v, %v", runs, err)
	}
	end := signal.Change{Account: account, Ended: due.Run, Events: events(signal.AgentCompleted)}
	if _, err := b.log.Append(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if runs, err := b.store.OverdueRuns(t.Context(), 5, time.Now(), 10); err != nil || len(runs) != 0 {
		t.Errorf("overdue after the end: %v, %v", runs, err)
	}
}

func (b *clusterBench) testErasing(t *testing.T) {
	s, ctx := b.store, t.Context()
	gone, stays := accountIn(s, 1), accountIn(s, 1)
	for i := range 3 {
		fillAccount(t, s, b.log, gone, i)
		fillAccount(t, s, b.log, stays, i)
	}
	before := eraseState(t, s, stays)
	epoch := take(t, s, 1, "a", time.Minute)
	if err := s.BeginErase(ctx, 1, epoch, gone, s.Now().Add(-2*eraseGrace)); err != nil {
		t.Fatal(err)
	}
	if wait := eraseAll(t, s, epoch); wait >= 0 {
		t.Errorf("there is more to do in %v", wait)
	}
	for kind, n := range eraseState(t, s, gone) {
		if n != 0 {
			t.Errorf("%d %s are left of the deleted account", n, kind)
		}
	}
	if d := cmp.Diff(before, eraseState(t, s, stays)); d != "" {
		t.Errorf("records of the other account (-want +got):\n%s", d)
	}
}

func (b *clusterBench) testTrimming(t *testing.T) {
	s, ctx := b.store, t.Context()
	epoch := take(t, s, 2, "a", time.Minute)
	at, err := b.log.Append(ctx, created(logSignal(accountIn(s, 2))))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreEnginePosition(ctx, 2, epoch, at); err != nil {
		t.Fatal(err)
	}
	trimmer := NewTrimmer(s, TrimOptions{Keep: time.Nanosecond, MaxEntries: 1, Retention: time.Nanosecond})
	if err := trimmer.TrimEvents(ctx, 2, epoch); err != nil {
		t.Errorf("trim events: %v", err)
	}
	wantKind(t, "trimming by a former owner", trimmer.TrimEvents(ctx, 2, epoch-1), signal.KindConflict)
	if err := trimmer.TrimSignals(ctx, 2, epoch); err != nil {
		t.Errorf("trim signals: %v", err)
	}
}

func (b *clusterBench) testJobs(t *testing.T) {
	ctx := t.Context()
	bench := &jobBench{t: t, store: b.store, log: b.log}
	first, second := bench.jobs("n1", 0), bench.jobs("n2", time.Millisecond)
	want := map[signal.JobID]bool{}
	for p := range b.store.Partitions() {
		want[bench.enqueue(first, accountIn(b.store, p)).ID] = true
	}
	if n, err := first.Waiting(ctx); n != int64(len(want)) || err != nil {
		t.Errorf("%d jobs wait, %v; want %d", n, err, len(want))
	}
	// The first node takes all and does nothing; the second takes them over.
	for range want {
		bench.next(first)
	}
	for range b.store.Partitions() {
		job := bench.next(second)
		if !want[job.ID] || job.Attempt != 2 {
			t.Errorf("job %s was taken over in attempt %d", job.ID, job.Attempt)
		}
		delete(want, job.ID)
		if _, err := bench.complete(job); err != nil {
			t.Errorf("complete: %v", err)
		}
		second.Done(job)
		account := job.Request.Account
		if done, err := first.Job(ctx, account, job.ID); done.Status != signal.JobCompleted || done.Signal == nil || err != nil {
			t.Errorf("job %s is %+v, %v", job.ID, done, err)
		}
		if list, total, err := first.Jobs(ctx, account, signal.JobCompleted, 10, 0); len(list) != 1 || total != 1 || err != nil {
			t.Errorf("listed: %d of %d, %v", len(list), total, err)
		}
	}
	// A job that comes while a node waits wakes it, though no command can wait for all queues.
	woken := make(chan signal.Job, 1)
	idle := bench.jobs("n3", 0)
	go func() {
		for ctx.Err() == nil {
			if jobs, err := idle.Next(ctx, 1); err != nil || len(jobs) > 0 {
				woken <- append(jobs, signal.Job{})[0]
				return
			}
		}
	}()
	late := bench.enqueue(first, accountIn(b.store, 0))
	if job := <-woken; job.ID != late.ID {
		t.Errorf("the waiting node got job %q, want %s", job.ID, late.ID)
	}
}

func (b *clusterBench) testReplies(t *testing.T) {
	ctx, account := t.Context(), accountIn(b.store, 4)
	key := signal.ReplyKey{Method: "POST", Path: "/v1/x", Key: "k"}
	claim := func() (*signal.Reply, error) { return b.store.Claim(ctx, account, key) }
	if r, err := claim(); r != nil || err != nil {
		t.Fatalf("claim: %v, %v", r, err)
	}
	if err := b.store.Release(ctx, account, key); err != nil {
		t.Errorf("release: %v", err)
	}
	if r, err := claim(); r != nil || err != nil {
		t.Errorf("claim after release: %v, %v", r, err)
	}
	// The reply without a body is stored with its signal, and shows that.
	sig := logSignal(account)
	change := created(sig)
	change.Reply = &signal.Reply{ReplyKey: key, Status: 200}
	if _, err := b.log.Append(ctx, change); err != nil {
		t.Fatal(err)
	}
	if r, err := claim(); err != nil || r == nil || r.Signal == nil || r.Signal.ID != sig.ID {
		t.Errorf("the reply is %+v, %v", r, err)
	}
	other := &signal.Reply{ReplyKey: signal.ReplyKey{Method: "POST", Path: "/v1/y", Key: "k"}, Status: 201, Body: []byte("{}")}
	if err := b.store.SaveReply(ctx, account, other); err != nil {
		t.Errorf("save reply: %v", err)
	}
}

func (b *clusterBench) testMarket(t *testing.T) {
	ctx, m := t.Context(), NewMarket(b.store)
	epoch, err := m.TakeLease(ctx, "a", time.Minute)
	if err != nil || epoch == 0 {
		t.Fatalf("take lease: %d, %v", epoch, err)
	}
	if other, err := m.TakeLease(ctx, "b", time.Minute); other != 0 || err != nil {
		t.Errorf("another feeder: %d, %v", other, err)
	}
	if kept, err := m.RenewLease(ctx, "a", epoch, time.Minute); !kept || err != nil {
		t.Errorf("renew: %v, %v", kept, err)
	}
	if err := m.AppendTicks(ctx, []signal.AssetTick{{Asset: "BTC", Tick: signal.Tick{Price: 5, Time: 1}}, {Asset: "ETH", Tick: signal.Tick{Price: 6, Time: 1}}}); err != nil {
		t.Fatal(err)
	}
	b.cluster.Client().XAdd(ctx, &redis.XAddArgs{Stream: marketBarsKey(), Values: []string{"asset", "BTC"}})
	ticks, err := m.ReadTicks(ctx, signal.Position{}, time.Second)
	if len(ticks) != 2 || err != nil {
		t.Fatalf("%d ticks, %v", len(ticks), err)
	}
	if end, err := m.TicksEnd(ctx); end != ticks[1].Position || err != nil {
		t.Errorf("the ticks end at %v, %v", end, err)
	}
	bars, err := m.ReadBars(ctx, signal.Position{}, time.Second)
	if len(bars) != 1 || err != nil {
		t.Fatalf("%d entries of bars, %v", len(bars), err)
	}
	asset := signal.MarketAsset{Symbol: "BTC", Class: "crypto", Source: "stream", TickSize: .01, Speed: 1}
	step := &signal.MarketStep{Epoch: epoch, Ticks: ticks[1].Position, Bars: bars[0].Position, Checkpoint: []byte("x"), Assets: []signal.MarketAsset{asset},
		Live: []signal.MarketLive{{Asset: "BTC", Last: signal.Tick{Price: 5, Time: 1}}}, Closed: []signal.MarketBar{marketBar(0, 9), marketBar(1, 9)},
		News: []signal.MarketNews{{ID: "n", At: 1, Headline: "h", Weight: 1, Symbols: []string{"BTC"}}}}
	if err := m.Store(ctx, step); err != nil {
		t.Fatal(err)
	}
	fill := []signal.MarketSeries{{Asset: "BTC", Timeframe: signal.H1, Bars: []signal.MarketBar{marketBar(2, 9)}},
		{Asset: "ETH", Timeframe: signal.H1, Bars: []signal.MarketBar{marketBar(0, 9)}}}
	if err := m.Fill(ctx, epoch, fill); err != nil {
		t.Fatal(err)
	}
	recent := map[string]int{}
	err = m.EachRecent(ctx, []string{"BTC", "ETH"}, signal.H1, 10, func(asset string, bars []signal.MarketBar) { recent[asset] = len(bars) })
	if d := cmp.Diff(map[string]int{"BTC": 3, "ETH": 1}, recent); d != "" || err != nil {
		t.Errorf("recent bars: %v (-want +got):\n%s", err, d)
	}
	if bars, count, err := m.Bars(ctx, "BTC", signal.H1); len(bars) != 3 || count != 4 || err != nil {
		t.Errorf("%d bars, count %d, %v", len(bars), count, err)
	}
	if got, live, err := m.Asset(ctx, "BTC"); got != asset || live.Last.Price != 5 || err != nil {
		t.Errorf("asset %+v, live %+v, %v", got, live, err)
	}
	state, err := m.State(ctx)
	if state.Ticks != step.Ticks || state.Bars != step.Bars || len(state.Assets) != 1 || len(state.Live) != 1 || err != nil {
		t.Errorf("state %+v, %v", state, err)
	}
	closed, news, closedTo, _, err := m.Follow(ctx, signal.Position{}, signal.Position{}, time.Second)
	if len(closed) != 4 || len(news) != 1 || err != nil {
		t.Errorf("followed: %d closed bars, %d news, %v", len(closed), len(news), err)
	}
	if end, n, err := m.ClosedEnd(ctx); end != closedTo || n != 4 || err != nil {
		t.Errorf("closed bars end at %v after %d, %v; want %v", end, n, err, closedTo)
	}
	if err := m.Trim(ctx, b.store.Now(), ticks[1].Position, b.store.Now().Add(-time.Hour)); err != nil {
		t.Errorf("trim: %v", err)
	}
	if err := m.TrimBars(ctx, bars[0].Position); err != nil {
		t.Errorf("trim bars: %v", err)
	}
	if err := m.GiveUpLease(ctx, "a", epoch); err != nil {
		t.Errorf("give up: %v", err)
	}
	if next, err := m.TakeLease(ctx, "b", time.Minute); next <= epoch || err != nil {
		t.Errorf("the next feeder has epoch %d, %v", next, err)
	}
	wantKind(t, "a step of the former feeder", m.Store(ctx, step), signal.KindConflict)
	wantKind(t, "a series of the former feeder", m.Fill(ctx, epoch, fill), signal.KindConflict)
}

func (b *clusterBench) testAccounts(t *testing.T) {
	s, ctx := b.store, t.Context()
	a := addAccount(t, s, "accounts@example.com")
	wantError(t, s.CreateAccount(ctx, signal.Account{ID: signal.NewAccountID(), Email: a.Email, CreatedAt: nowMS()}, "hash"), signal.KindConflict, "email_taken")
	if got, _, err := s.AccountByEmail(ctx, a.Email); got != a || err != nil {
		t.Errorf("by email: %+v, %v", got, err)
	}
	if list, total, err := s.Accounts(ctx, 1000, 0); !slices.Contains(list, a) || total < 1 || err != nil {
		t.Errorf("listed: %v of %d, %v", list, total, err)
	}
	if err := s.Rehash(ctx, a.ID, "hash", "other hash"); err != nil {
		t.Errorf("rehash: %v", err)
	}
	kept, ended := addSession(t, s, a.ID), addSession(t, s, a.ID)
	events, err := s.SetPassword(ctx, a.ID, "new hash", 1, kept.ID, nowMS())
	if len(events) != 1 || events[0].Subject != string(ended.ID) || err != nil {
		t.Errorf("a new password ends %v, %v", events, err)
	}
	if _, p, err := s.AccountByID(ctx, a.ID); p.Hash != "new hash" || err != nil {
		t.Errorf("password: %+v, %v", p, err)
	}
	_, secret := addKey(t, s, a.ID, "key")
	gone, err := s.DeleteAccount(ctx, a.ID, nowMS())
	if len(gone) != 1 || err != nil {
		t.Fatalf("deleting announces %v, %v", gone, err)
	}
	_, err = s.KeyByDigest(ctx, secret)
	wantKind(t, "a key of the deleted account", err, signal.KindNotFound)
	_, err = s.SessionByLocator(ctx, kept.Locator)
	wantKind(t, "a session of the deleted account", err, signal.KindNotFound)
	events = append(events, gone...)
	for _, e := range events {
		if _, err := b.log.Append(ctx, signal.Change{Account: a.ID, Events: []signal.Event{e}}); err != nil {
			t.Errorf("announce: %v", err)
		}
	}
	if err := s.Settle(ctx, events); err != nil {
		t.Errorf("settle: %v", err)
	}
	for _, e := range outboxOf(t, s) {
		if e.Account == a.ID {
			t.Errorf("%+v is not settled", e)
		}
	}
}

func (b *clusterBench) testKeys(t *testing.T) {
	s, ctx := b.store, t.Context()
	a := addAccount(t, s, "keys@example.com")
	first, one := addKey(t, s, a.ID, "one")
	_, two := addKey(t, s, a.ID, "two")
	used := nowMS()
	if err := s.NoteKeyUses(ctx, map[signal.Digest]time.Time{one: used, two: used}); err != nil {
		t.Errorf("note uses: %v", err)
	}
	if k, err := s.KeyByDigest(ctx, one); k.ID != first.ID || !k.LastUsedAt.Equal(used) || err != nil {
		t.Errorf("key %+v, %v", k, err)
	}
	if events, err := s.RevokeKey(ctx, a.ID, first.ID, nowMS()); len(events) != 1 || err != nil {
		t.Errorf("revoking announces %v, %v", events, err)
	}
	if keys, err := s.Keys(ctx, a.ID); len(keys) != 1 || err != nil {
		t.Errorf("%d keys are left, %v", len(keys), err)
	}
}

func (b *clusterBench) testSessions(t *testing.T) {
	s, ctx := b.store, t.Context()
	a := addAccount(t, s, "sessions@example.com")
	n := addSession(t, s, a.ID)
	next := nextOf(n, "next")
	if events, err := s.RotateSession(ctx, next, n.Refresh, nowMS()); len(events) != 0 || err != nil {
		t.Errorf("rotate: %v, %v", events, err)
	}
	if got, err := s.SessionByLocator(ctx, n.Locator); got.Refresh != next.Refresh || err != nil {
		t.Errorf("rotated: %+v, %v", got, err)
	}
	if events, err := s.RotateSession(ctx, nextOf(next, "third"), n.Refresh, nowMS()); len(events) != 1 || err != nil {
		t.Errorf("a used token announces %v, %v", events, err)
	}
	one := addSession(t, s, a.ID)
	if events, err := s.EndSession(ctx, a.ID, one.ID, nowMS()); len(events) != 1 || err != nil {
		t.Errorf("ending announces %v, %v", events, err)
	}
	addSession(t, s, a.ID)
	if events, err := s.EndSessions(ctx, a.ID, nowMS()); len(events) != 1 || err != nil {
		t.Errorf("ending all announces %v, %v", events, err)
	}
	email, rules := signal.DigestOf(a.Email), signal.LockRules{After: 2, Window: time.Hour, Duration: time.Hour}
	for want, i := false, 0; i < 2; want, i = true, i+1 {
		if _, locked, err := s.FailLogin(ctx, email, rules, nowMS()); locked != want || err != nil {
			t.Errorf("failed login %d: locked %v, %v", i+1, locked, err)
		}
	}
	if until, err := s.LockedUntil(ctx, email); until.IsZero() || err != nil {
		t.Errorf("locked until %v, %v", until, err)
	}
	if err := s.Unlock(ctx, email); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

func (b *clusterBench) testLimits(t *testing.T) {
	for _, who := range []string{"a", "b", "c", "d", "e"} { // in different slots
		taken := 0
		for range 3 {
			n, _, err := b.store.TakeTokens(t.Context(), "runs", who, 5, time.Hour, 2, 0)
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
	if _, err := b.log.Append(t.Context(), created(logSignal(accountIn(b.store, 6)))); err != nil {
		t.Fatal(err)
	}
	if err := b.store.UpdateGauges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testutil.ToFloat64(b.store.metrics.streams.length.WithLabelValues("signals", "")); n < 1 {
		t.Errorf("the gauge shows %v signals", n)
	}
}
