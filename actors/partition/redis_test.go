package partition

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// testLease is short to keep the tests short.
const testLease = time.Second

// process is a node on a real Redis.
type process struct {
	*Partitions
	sys   *engine.System
	store *persistence.Store
	log   *eventlog.Log
	// frozen blocks all commands to Redis, as in a paused process.
	frozen atomic.Bool
}

// redisStore is a Store on a real Redis.
type redisStore struct {
	*signals.Store
	*eventlog.Leases
	*eventlog.Positions
	*eventlog.Nodes
	Eraser
}

func newRedisStore(s *persistence.Store) redisStore {
	return redisStore{s.Signals, s.Logs.Leases, s.Logs.Positions, s.Logs.Nodes, s.Eraser}
}

// freezable is the store of a process.
type freezable struct {
	redisStore
	p *process
}

func (f freezable) frozen() error {
	if f.p.frozen.Load() {
		return signal.Unavailable(errDown)
	}
	return nil
}

func (f freezable) AnnounceNode(
	ctx context.Context, node string, ttl time.Duration, single bool,
) (cluster.Members, error) {
	if err := f.frozen(); err != nil {
		return cluster.Members{}, err
	}
	return f.Nodes.AnnounceNode(ctx, node, ttl, single)
}

func (f freezable) RenewLeases(
	ctx context.Context, node string, leases []cluster.Lease, ttl time.Duration,
) []error {
	if err := f.frozen(); err != nil {
		return slices.Repeat([]error{err}, len(leases))
	}
	return f.Leases.RenewLeases(ctx, node, leases, ttl)
}

func (f freezable) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (int64, string, error) {
	if err := f.frozen(); err != nil {
		return 0, "", err
	}
	return f.Leases.TakeLease(ctx, p, node, ttl)
}

func (f freezable) ReleaseLeases(ctx context.Context, node string, leases []cluster.Lease) error {
	if err := f.frozen(); err != nil {
		return err
	}
	return f.Leases.ReleaseLeases(ctx, node, leases)
}

func startProcess(t *testing.T, server *redistest.Server, id string) *process {
	t.Helper()
	store, err := persistence.Open(persistence.Options{URL: server.URL(), Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{store: store, log: eventlog.NewLog(store.Logs, eventlog.LogOptions{}), sys: newSystem()}
	o := Options{Lease: testLease, SweepEvery: 50 * time.Millisecond}
	p.Partitions = New(p.sys, id, freezable{newRedisStore(store), p}, p.log, o)
	t.Cleanup(func() {
		p.stop(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		p.log.Close(ctx)
		store.Client.Close()
	})
	return p
}

func (p *process) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.sys.Shutdown(ctx); err != nil {
		t.Errorf("shut a process down: %v", err)
	}
}

// await waits until a condition holds, and returns how long that took.
func await(t *testing.T, what string, limit time.Duration, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

// generous is how much longer than promised a test waits, because the machine may be
// busy. The promised and the measured time are logged.
const generous = 20 * time.Second

// owners reads the owner and the epoch of each partition from Redis.
func owners(t *testing.T, s *persistence.Store) (map[string]int, map[int]int64) {
	t.Helper()
	got, epochs := map[string]int{}, map[int]int64{}
	for p := range s.Client.Partitions() {
		node, epoch, err := s.Logs.Leases.Owner(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if node != "" {
			got[node]++
			epochs[p] = epoch
		}
	}
	return got, epochs
}

func TestTwoNodesOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := startProcess(t, server, "node_a")
	await(t, "the first node owns all", generous, func() bool { return a.Owned() == 8 })
	b := startProcess(t, server, "node_b")
	took := await(t, "the second has its share", generous, func() bool {
		return b.Wanted() > 0 && b.Owned() == b.Wanted() && a.Owned() == 8-b.Owned()
	})
	t.Logf("the second node's share was handed over in %v (promised: 1 s)", took)
	if b.Owned() == 8 {
		t.Fatal("the second node took all partitions")
	}
	got, epochs := owners(t, b.store)
	if got["node_a"] != a.Owned() || got["node_b"] != b.Owned() {
		t.Errorf("Redis knows %v, the nodes %d and %d", got, a.Owned(), b.Owned())
	}

	// A paused process sends nothing.
	b.frozen.Store(true)
	took = await(t, "the other owns all", generous, func() bool { return a.Owned() == 8 && b.Owned() == 0 })
	t.Logf("took over in %v (promised: lease of %v + 2 s)", took, testLease)
	refusedWrites := 0
	for p, epoch := range epochs {
		err := b.store.Logs.Positions.StoreOwnerPosition(t.Context(), p, epoch, signal.Position{MS: 1})
		if _, now, _ := b.store.Logs.Leases.Owner(t.Context(), p); now != epoch {
			refusedWrites++
			if !lost(err) {
				t.Errorf("a write of the former owner of partition %d: %v", p, err)
			}
		}
	}
	if refusedWrites == 0 {
		t.Error("no partition has changed its owner")
	}

	// It continues, and leaves in order.
	b.frozen.Store(false)
	await(t, "b has its share again", generous, func() bool { return b.Owned() > 0 && a.Owned()+b.Owned() == 8 })
	start := time.Now()
	b.stop(t)
	await(t, "handed over", generous, func() bool { return a.Owned() == 8 })
	t.Logf("handed over in %v (promised: 1 s)", time.Since(start))
	if got, _ := owners(t, a.store); got["node_a"] != 8 {
		t.Errorf("owners %v", got)
	}
}

func TestRestartWithTheSameID(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	killed := startProcess(t, server, "node_a")
	await(t, "it owns all", generous, func() bool { return killed.Owned() == 8 })
	_, before := owners(t, killed.store)
	killed.frozen.Store(true)
	restarted := startProcess(t, server, "node_a")
	took := await(t, "the restarted node owns all", generous, func() bool { return restarted.Owned() == 8 })
	t.Logf("took its leases back in %v (lease: %v)", took, testLease)
	_, after := owners(t, restarted.store)
	for p := range after {
		if after[p] <= before[p] {
			t.Errorf("partition %d: epoch %d after %d", p, after[p], before[p])
		}
	}
}

func TestRestartOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.NewDurable(t)
	a := startProcess(t, server, "node_a")
	b := startProcess(t, server, "node_b")
	await(t, "both own their share", generous, func() bool { return b.Owned() > 0 && a.Owned()+b.Owned() == 8 })
	server.Kill()
	await(t, "no node owns a partition", generous, func() bool { return a.Owned()+b.Owned() == 0 })
	server.Restart()
	await(t, "all is owned again", generous, func() bool {
		return a.Owned()+b.Owned() == 8 && a.Owned() > 0 && b.Owned() > 0
	})
	if err := a.sys.Alive(t.Context()); err != nil {
		t.Error(err)
	}
}

// An account's deletion and a run whose process died have their effects on any owner,
// without a tail: the feed reads the log.
func TestEffectsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	a := startProcess(t, server, "node_a")
	await(t, "it owns all", generous, func() bool { return a.Owned() == 8 })
	account := signal.NewAccountID()
	p := a.store.Client.Partition(account)
	run := signal.NewRunID()
	_, err := a.log.Append(t.Context(), signal.Change{Account: account,
		Events: []signal.Event{{Type: signal.AgentStarted, Agent: "weather", Run: run, Data: []byte(`{}`)}},
		Due:    &signal.RunDue{Run: run, Agent: "weather", At: a.store.Client.Now().Add(-time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	var events []signal.Event
	await(t, "the run is ended", generous, func() bool {
		if events, err = a.store.Logs.ReadLog(t.Context(), p, signal.Position{}, 10); err != nil {
			t.Fatal(err)
		}
		return len(events) == 2
	})
	if e := events[1]; e.Type != signal.AgentFailed || e.Run != run || e.Agent != "weather" || e.Account != account {
		t.Errorf("event %+v", e)
	}
	left, err := a.store.Signals.OverdueRuns(t.Context(), p, time.Now().Add(time.Hour), 10)
	if len(left) != 0 || err != nil {
		t.Errorf("overdue runs left: %v, %v", left, err)
	}
	deleted := []signal.Event{{Type: signal.AccountDeleted}}
	position, err := a.log.Append(t.Context(), signal.Change{Account: account, Events: deleted})
	if err != nil {
		t.Fatal(err)
	}
	c := server.Client()
	await(t, "the erasing is noted", generous, func() bool {
		return c.HLen(t.Context(), a.store.Client.EraseKey(p)).Val() == 1
	})
	await(t, "the position is stored", generous, func() bool {
		got, err := a.store.Logs.Positions.OwnerPosition(t.Context(), p)
		return err == nil && got == position
	})
}

// Nodes join and leave from many goroutines; at the end no partition has an owner.
func TestManyNodesJoinAndLeave(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 3 {
				p := startProcess(t, server, fmt.Sprint("node_", i))
				for k := range 200 {
					at := signal.Position{MS: int64(1000*j + k)}
					p.Publish(k%8, []signal.Event{{Type: signal.SignalCreated, Position: at}})
					p.Gap(k % 8)
					p.Owned()
				}
				time.Sleep(time.Duration(i*j*20) * time.Millisecond)
				p.stop(t)
				if n := p.Owned(); n != 0 {
					t.Errorf("a node that left owns %d partitions", n)
				}
			}
		})
	}
	wg.Wait()
	s, err := persistence.Open(persistence.Options{URL: server.URL(), Partitions: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Client.Close()
	if got, _ := owners(t, s); len(got) != 0 {
		t.Errorf("leases are left: %v", got)
	}
}
