package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// harness fakes the store of the logs of one partition, whose signal log has entries.
type harness struct {
	mu      sync.Mutex
	entries int
	stored  []tlog.Hash // as tlog stores hashes
	leaves  int
	batch   int // of one append
	epoch   int64
	failing error
	calls   int
	forked  bool // consistency with any earlier head cannot be proved
	newest  *record.Signed
	broken  error       // of reading the newest checkpoint
	root    []tlog.Hash // of the root log, as tlog stores hashes
	roots   []tlog.Hash // the leaves of the root log
	signed  []*verify.Checkpoint
	back    *record.Rollback
	keeper  *memoryKeeper // nil for none
	ahead   time.Duration // of the clock
	lost    []error

	keys     *record.Keys
	metrics  *prometheus.Registry
	audience *audience
	follower ownership.Follower
	sys      *engine.System
}

func (w *harness) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// hashesIn reads hashes that are stored as tlog stores them.
func hashesIn(stored []tlog.Hash) tlog.HashReaderFunc {
	return func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, stored[i])
		}
		return list, nil
	}
}

func (w *harness) AppendLeaves(_ context.Context, _ int, epoch int64) (n int, more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.failing != nil {
		return 0, false, w.failing
	}
	if epoch != w.epoch {
		return 0, false, &signal.Error{Kind: signal.KindConflict, Code: signal.CodeNotOwner}
	}
	for ; n < w.batch && w.leaves < w.entries; n++ {
		hashes, err := tlog.StoredHashes(int64(w.leaves), fmt.Append(nil, w.leaves), hashesIn(w.stored))
		if err != nil {
			return n, false, err
		}
		w.stored = append(w.stored, hashes...)
		w.leaves++
	}
	return n, n == w.batch, nil
}

func (w *harness) CountLeaves(context.Context) (n int64, err error) {
	w.do(func() { n, err = int64(w.leaves), w.failing })
	return n, err
}

func (w *harness) LogHeads(context.Context) (*verify.Heads, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hash, err := tlog.TreeHash(int64(w.leaves), hashesIn(w.stored))
	return &verify.Heads{Logs: []tlog.Tree{{N: int64(w.leaves), Hash: hash}}}, err
}

func (w *harness) Growth(_ context.Context, older, newer *verify.Checkpoint) (*verify.Growth, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	prove := func(was, is tlog.Tree, stored []tlog.Hash) (tlog.TreeProof, error) {
		if was.N == 0 || was.N > is.N || w.forked {
			return nil, nil
		}
		return tlog.ProveTree(is.N, was.N, hashesIn(stored))
	}
	root, err := prove(older.Root, newer.Root, w.root)
	if err != nil {
		return nil, err
	}
	log, err := prove(older.Logs[0], newer.Logs[0], w.stored)
	return &verify.Growth{Root: root, Logs: []tlog.TreeProof{log}}, err
}

func (w *harness) RootTree(context.Context, tlog.Tree) (*record.Tree, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tree := &record.Tree{}
	tree.Append(w.roots)
	return tree, nil
}

func (w *harness) Checkpoint(context.Context) (*record.Signed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == nil && w.broken == nil {
		return nil, signal.NotFound("checkpoint")
	}
	return w.newest, w.broken
}

func (w *harness) Rollback(context.Context) (*record.Rollback, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.back, nil
}

func (w *harness) StoreCheckpoint(
	_ context.Context, epoch int64, c *record.Signed, back *record.Rollback, _ []record.Piece,
) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if epoch != w.epoch {
		return &signal.Error{Kind: signal.KindConflict, Code: signal.CodeNotOwner}
	}
	if c.Root.N == 1 {
		w.root, w.roots = nil, nil
	}
	texts := []string{c.Entry.Text}
	if back != nil {
		texts, w.back = []string{back.Text(), c.Entry.Text}, back
	}
	for _, text := range texts {
		hashes, err := tlog.StoredHashes(int64(len(w.roots)), []byte(text), hashesIn(w.root))
		if err != nil {
			return err
		}
		w.root = append(w.root, hashes...)
		w.roots = append(w.roots, tlog.RecordHash([]byte(text)))
	}
	w.newest = c
	w.signed = append(w.signed, c.Checkpoint)
	return nil
}

// owner is the owner of a partition.
type owner struct {
	w *harness
	n *Node
	p int
}

func (o *owner) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		f := o.n.Start(c, ownership.Owned{Partition: o.p, Epoch: 7, Owner: c.Self()})
		o.w.do(func() { o.w.follower = f })
	case ownership.Lost:
		o.w.do(func() { o.w.lost = append(o.w.lost, m.Err) })
	}
}

// newHarness returns a harness with a partition that has just become owned.
func newHarness(t *testing.T, partition int) *harness {
	t.Helper()
	return newHarnessOf(t, partition, nil)
}

// newHarnessOf is newHarness with webhooks, nil for none.
func newHarnessOf(t *testing.T, partition int, a *audience) *harness {
	t.Helper()
	w := &harness{batch: 100, epoch: 7, metrics: prometheus.NewRegistry(), audience: a, keys: newKeys(t)}
	w.start(partition)
	t.Cleanup(w.end)
	return w
}

func newKeys(t *testing.T) *record.Keys {
	t.Helper()
	key, err := record.NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := record.ParseKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (w *harness) start(partition int) {
	w.metrics = prometheus.NewRegistry()
	o := Options{Metrics: NewMetrics(w.metrics), Now: func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Now().Add(w.ahead)
	}}
	if w.audience != nil {
		o.Subscribers, o.Events = w.audience, w.audience
	}
	if w.keeper != nil {
		o.Keeper = w.keeper
	}
	n := New(w, w.keys, o)
	w.sys = engine.NewSystem(engine.Options{})
	w.sys.Spawn(engine.Partition, "p", func() engine.Actor { return &owner{w, n, partition} }, engine.Supervision{})
	synctest.Wait()
}

func (w *harness) end() { w.sys.Shutdown(context.Background()) }

// add adds entries to the signal log and reports them.
func (w *harness) add(n int) {
	w.do(func() { w.entries += n })
	w.follower.Follow([]signal.Event{{Type: signal.AgentCompleted}, {Type: signal.SignalClosed}})
}

// appended checks how many leaves there are.
func (w *harness) wantLeaves(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	w.do(func() {
		if w.leaves != want {
			t.Errorf("%d leaves, want %d", w.leaves, want)
		}
	})
}

// sizes returns the sizes of the checkpoints that were signed.
func (w *harness) sizes() (list []int64) {
	synctest.Wait()
	w.do(func() {
		for _, c := range w.signed {
			list = append(list, c.Size())
		}
	})
	return list
}

func (w *harness) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestLeavesFollowTheSignalLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, 3)
		w.add(5)
		w.add(5)
		w.wantLeaves(t, 0) // they wait for others
		time.Sleep(appendAfter)
		w.wantLeaves(t, 10)
		var calls int
		w.do(func() { calls = w.calls })
		if calls != 2 { // at the start, and once for both
			t.Errorf("%d appends", calls)
		}
		w.add(1050) // more than a batch
		time.Sleep(appendAfter)
		w.wantLeaves(t, 1060)
		w.do(func() { w.entries++ }) // of which no event reports
		time.Sleep(appendEvery)
		w.wantLeaves(t, 1061)
		w.follower.Follow([]signal.Event{{Type: signal.SignalUpdated}})
		w.do(func() { calls = w.calls })
		time.Sleep(time.Second)
		w.do(func() {
			if w.calls != calls {
				t.Error("an update is appended")
			}
			w.failing = errors.New("no redis")
		})
		w.add(1)
		time.Sleep(time.Minute)
		w.do(func() { w.failing = nil })
		time.Sleep(retryEvery)
		w.wantLeaves(t, 1062)
		if n := w.metric(t, "agentsignal_record_leaves_total"); n != 1062 {
			t.Errorf("the metric counts %v", n)
		}
		if got := w.sizes(); got != nil {
			t.Errorf("another partition has signed %v", got)
		}
	})
}

func TestAnOwnerThatIsReplacedGivesUp(t *testing.T) {
	t.Parallel()
	for _, partition := range []int{3, record.SigningPartition} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, partition)
			w.do(func() { w.epoch = 8 })
			w.add(1)
			time.Sleep(2 * time.Minute)
			w.do(func() {
				if len(w.lost) == 0 || signal.CodeOf(w.lost[0]) != signal.CodeNotOwner {
					t.Errorf("lost: %v", w.lost)
				}
				if n := len(w.signed); n > 1 {
					t.Errorf("%d checkpoints", n)
				}
			})
		})
	}
}

func TestCheckpointsAreSigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, record.SigningPartition)
		if got := w.sizes(); !slices.Equal(got, []int64{0}) {
			t.Errorf("at the start: %v", got)
		}
		w.add(9)
		time.Sleep(6 * time.Second)
		if got := w.sizes(); len(got) != 1 {
			t.Errorf("within seconds: %v", got)
		}
		time.Sleep(4 * time.Second)
		if got := w.sizes(); !slices.Equal(got, []int64{0, 9}) {
			t.Errorf("after ten seconds: %v", got)
		}
		if age := w.metric(t, "agentsignal_record_checkpoint_age_seconds"); age > 2 {
			t.Errorf("the checkpoint is %v s old", age)
		}
		time.Sleep(20 * time.Second)
		w.add(1)
		time.Sleep(3 * time.Second)
		if got := w.sizes(); !slices.Equal(got, []int64{0, 9, 10}) {
			t.Errorf("a leaf after a pause: %v", got)
		}
		w.end()
		w.start(record.SigningPartition) // a crash and another owner
		time.Sleep(30 * time.Second)
		if got := w.sizes(); len(got) != 3 {
			t.Errorf("within a minute by another owner: %v", got)
		}
		time.Sleep(31 * time.Second)
		if got := w.sizes(); !slices.Equal(got, []int64{0, 9, 10, 10}) {
			t.Errorf("without new leaves: %v", got)
		}
	})
}

// TestNoContradictionIsSigned checks that the signer stops where a verifier would accuse it.
func TestNoContradictionIsSigned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*harness){
		"leaves are lost":    func(w *harness) { w.entries, w.leaves = 5, 5 },
		"the log is another": func(w *harness) { w.forked = true },
		"the store was rolled back": func(w *harness) {
			first := w.signed[0]
			w.newest = &record.Signed{Checkpoint: first}
			w.root, w.roots = w.root[:1], w.roots[:1]
			w.entries, w.leaves, w.stored = 0, 0, nil
		},
		"the clock is set back": func(w *harness) { w.ahead = -time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, record.SigningPartition)
				w.add(10)
				time.Sleep(2 * time.Minute)
				before := len(w.sizes())
				w.do(func() { change(w) })
				w.add(1)
				time.Sleep(3 * time.Minute)
				if got := w.sizes(); len(got) != before || before < 2 {
					t.Errorf("signed %v, %d before", got, before)
				}
			})
		})
	}
}

// TestAgeGrowsWhileNothingIsSigned checks that the metric shows why signing stands still, before a first
// checkpoint is read, and where the clock went back behind the newest one.
func TestAgeGrowsWhileNothingIsSigned(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*harness){
		"the first read fails":  func(w *harness) { w.broken = errors.New("not a checkpoint") },
		"the clock is set back": func(w *harness) { w.ahead = -time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, record.SigningPartition)
				w.end()
				w.do(func() { change(w) })
				w.start(record.SigningPartition)
				time.Sleep(15 * time.Minute)
				if age := w.metric(t, "agentsignal_record_checkpoint_age_seconds"); age < 14*60 || age > 16*60 {
					t.Errorf("after 15 minutes it shows %v s", age)
				}
				w.do(func() { w.broken, w.ahead = nil, 0 })
				time.Sleep(2 * time.Second)
				if age := w.metric(t, "agentsignal_record_checkpoint_age_seconds"); age > 2 {
					t.Errorf("after a checkpoint it shows %v s", age)
				}
			})
		})
	}
}

// TestANewNameBeginsANewRecord checks the way out after signed leaves were lost.
func TestANewNameBeginsANewRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, record.SigningPartition)
		w.add(10)
		time.Sleep(2 * time.Minute)
		w.end()
		w.do(func() { w.entries, w.leaves = 5, 5 })
		signed := len(w.sizes())
		w.keys = newKeys(t)
		w.start(record.SigningPartition)
		time.Sleep(time.Second)
		if got := w.sizes(); len(got) != signed+1 || got[signed] != 5 {
			t.Fatalf("signed %v, want one more of 5 leaves", got)
		}
		w.do(func() {
			if name := w.signed[signed].Origin; name != w.keys.Name() || name == w.signed[0].Origin {
				t.Errorf("the new record has the name %s, the former one %s", name, w.signed[0].Origin)
			}
		})
		time.Sleep(2 * time.Minute)
		if got := w.sizes(); len(got) < signed+2 {
			t.Errorf("no checkpoint follows the first one: %v", got)
		}
	})
}

// memoryKeeper is a Keeper that outlives a node.
type memoryKeeper struct{ kept *record.Signed }

func (k *memoryKeeper) Load() (*record.Signed, error) { return k.kept, nil }

func (k *memoryKeeper) Save(c *record.Signed) error {
	k.kept = c
	return nil
}

// TestARolledBackStoreIsNotSigned by a node that has seen more, until an operator accepts it.
func TestARolledBackStoreIsNotSigned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &harness{batch: 100, epoch: 7, metrics: prometheus.NewRegistry(), keys: newKeys(t), keeper: &memoryKeeper{}}
		w.start(record.SigningPartition)
		t.Cleanup(w.end)
		w.add(3)
		time.Sleep(15 * time.Second)
		copied := w.copied()
		w.add(3)
		time.Sleep(15 * time.Second)
		w.end()
		lost := w.copied().newest
		w.rollBack(copied)
		w.start(record.SigningPartition)
		w.add(9) // more than were lost
		time.Sleep(2 * time.Minute)
		if now := w.copied().newest; now.Root != copied.newest.Root {
			t.Fatalf("after a rollback %+v is signed", now.Heads)
		}
		w.do(func() {
			w.back = &record.Rollback{Origin: lost.Origin, At: time.Now(), Lost: lost.Root.N, Root: lost.Root.Hash}
		})
		time.Sleep(2 * time.Second)
		now := w.copied()
		if now.newest.Root.N != copied.newest.Root.N+2 || now.back.Entry != copied.newest.Root.N+1 ||
			now.newest.Size() != 12 {
			t.Errorf("after its acceptance the newest is %+v, with the entry %d", now.newest.Checkpoint, now.back.Entry)
		}
		// The acceptance is for once.
		w.end()
		w.rollBack(copied)
		w.start(record.SigningPartition)
		time.Sleep(2 * time.Minute)
		if now := w.copied().newest; now.Root != copied.newest.Root {
			t.Errorf("after another rollback %+v is signed", now.Heads)
		}
	})
}

// copied returns a copy of what is stored.
func (w *harness) copied() *harness {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &harness{newest: w.newest, root: w.root, roots: w.roots, back: w.back, entries: w.entries, leaves: w.leaves,
		stored: w.stored}
}

// rollBack replaces what is stored, but for an accepted rollback, by a copy.
func (w *harness) rollBack(c *harness) {
	w.do(func() {
		w.newest, w.root, w.roots = c.newest, c.root, c.roots
		w.entries, w.leaves, w.stored = c.entries, c.leaves, c.stored
	})
}
