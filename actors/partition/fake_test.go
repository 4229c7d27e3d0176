package partition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("connection refused")

var errNotOwner = conflict(signal.CodeNotOwner, "another node owns the partition")

func conflict(code, message string) *signal.Error {
	return &signal.Error{Kind: signal.KindConflict, Code: code, Message: message}
}

// wantEqual compares a value with the expected one.
func wantEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// fakeRedis is the store that nodes share in a test with fake time.
type fakeRedis struct {
	partitions int
	ahead      time.Duration // of its clock

	mu         sync.Mutex
	live       map[string]time.Time
	single     map[string]bool
	copied     string // the node that another process is by now
	moved      error  // the result of announcements if Redis has another installation
	assignment cluster.Assignment
	owner      map[int]lease
	epoch      map[int]int64
	position   map[int]signal.Position
	stores     int // of positions
	renewals   int // calls that renewed leases
	releases   int // calls that released leases
	logs       map[int][]signal.Event
	due        map[int][]signal.RunDue
	erased     map[int][]signal.AccountID // by BeginErase, in its order
	toErase    map[int]int                // steps left
	trims      int
	uncompact  int   // blocks that there are to make
	compacted  int   // blocks that were made
	looks      int   // at the logs of silent partitions
	reads      int   // of logs
	sweeps     int   // that ended with no overdue run left
	refuse     error // the result of every owner's write; nil: it is stored
	undone     error // the result of BeginErase
	readLimit  int   // maximum events of one read; 0: as requested
}

type lease struct {
	node  string
	epoch int64
	until time.Time
}

func newFakeRedis(partitions int) *fakeRedis {
	return &fakeRedis{partitions: partitions, live: map[string]time.Time{}, single: map[string]bool{},
		owner: map[int]lease{}, epoch: map[int]int64{}, position: map[int]signal.Position{},
		logs: map[int][]signal.Event{}, due: map[int][]signal.RunDue{}, erased: map[int][]signal.AccountID{},
		toErase: map[int]int{}}
}

// now returns a copy of the state, without the fields that only tests set.
func (r *fakeRedis) now() *fakeRedis {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := newFakeRedis(r.partitions)
	c.stores, c.trims, c.epoch = r.stores, r.trims, maps.Clone(r.epoch)
	c.compacted = r.compacted
	c.renewals, c.releases, c.sweeps = r.renewals, r.releases, r.sweeps
	c.looks, c.reads = r.looks, r.reads
	c.position, c.toErase = maps.Clone(r.position), maps.Clone(r.toErase)
	for p := range r.partitions {
		c.logs[p], c.due[p], c.erased[p] = slices.Clone(r.logs[p]), slices.Clone(r.due[p]), slices.Clone(r.erased[p])
	}
	return c
}

// set changes the state.
func (r *fakeRedis) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// owners returns the holders of unexpired leases, by partition.
func (r *fakeRedis) owners() map[int]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[int]string{}
	for p, l := range r.owner {
		if time.Now().Before(l.until) {
			got[p] = l.node
		}
	}
	return got
}

// owns returns how many partitions each node owns.
func (r *fakeRedis) owns() map[string]int {
	got := map[string]int{}
	for _, node := range r.owners() {
		got[node]++
	}
	return got
}

// append adds an event of the given type to a partition's log.
func (r *fakeRedis) append(p int, account signal.AccountID, t signal.EventType) signal.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := signal.Event{Account: account, Type: t, Position: signal.Position{MS: time.Now().UnixMilli()}}
	if log := r.logs[p]; len(log) > 0 {
		if last := log[len(log)-1].Position; last.MS >= e.Position.MS {
			e.Position = last.Plus(1)
		}
	}
	r.logs[p] = append(r.logs[p], e)
	return e
}

// link is one node's way to Redis, which can be cut. It implements Store, Log,
// Trimmer, Compactor and Tail.
type link struct {
	*fakeRedis
	mu       sync.Mutex
	down     bool
	detached bool
	follows  map[int]int // calls of Follow without their release, by partition

	// On their way to Redis.
	announceTakes, assignTakes, takeTakes, renewTakes time.Duration
	// On their way back.
	announceReplyTakes, leaseReplyTakes, eraseReplyTakes time.Duration
}

func (l *link) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// up locks Redis, or fails after the time that a client takes to notice.
func (l *link) up(ctx context.Context) error {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return signal.Unavailable(errDown)
	}
	if ctx.Err() != nil {
		return signal.Unavailable(ctx.Err())
	}
	l.fakeRedis.mu.Lock()
	return nil
}

func (l *link) Partitions() int { return l.partitions }
func (l *link) Now() time.Time  { return time.Now().Add(l.ahead) }

func (l *link) Follow(p int) func() {
	l.follow(p, +1)
	return func() { l.follow(p, -1) }
}

func (l *link) follow(p, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.follows == nil {
		l.follows = map[int]int{}
	}
	l.follows[p] += n
}

func (l *link) Attached(int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.detached
}

func (l *link) AnnounceNode(
	ctx context.Context, node string, ttl time.Duration, single bool,
) (cluster.Members, error) {
	time.Sleep(l.announceTakes)
	if err := l.up(ctx); err != nil {
		return cluster.Members{}, err
	}
	defer time.Sleep(l.announceReplyTakes)
	defer l.fakeRedis.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.live, func(_ string, until time.Time) bool { return !now.Before(until) })
	for other := range l.live {
		if other != node && (single || l.single[other]) {
			return cluster.Members{}, conflict("not_alone", "another node runs")
		}
	}
	if l.moved != nil {
		return cluster.Members{}, l.moved
	}
	if l.copied == node {
		return cluster.Members{}, conflict(cluster.CodeOtherProcess, "another process is live")
	}
	l.live[node], l.single[node] = now.Add(ttl), single
	live := slices.Sorted(maps.Keys(l.live))
	return cluster.Members{Live: live, Assignment: l.assignment}, nil
}

func (l *link) AssignPartitions(ctx context.Context, a cluster.Assignment) (bool, error) {
	time.Sleep(l.assignTakes)
	if err := l.up(ctx); err != nil {
		return false, err
	}
	defer l.fakeRedis.mu.Unlock()
	if a.Version != l.assignment.Version+1 {
		return false, nil
	}
	l.assignment = a
	return true, nil
}

func (l *link) LeaveNode(ctx context.Context, node string) error {
	if err := l.up(ctx); err != nil {
		return err
	}
	defer l.fakeRedis.mu.Unlock()
	delete(l.live, node)
	return nil
}

func (l *link) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (int64, string, error) {
	time.Sleep(l.takeTakes)
	if err := l.up(ctx); err != nil {
		return 0, "", err
	}
	defer time.Sleep(l.leaseReplyTakes)
	defer l.fakeRedis.mu.Unlock()
	if held := l.owner[p]; held.node != node && time.Now().Before(held.until) {
		return 0, held.node, nil
	}
	l.epoch[p]++
	l.owner[p] = lease{node, l.epoch[p], time.Now().Add(ttl)}
	return l.epoch[p], "", nil
}

func (l *link) RenewLeases(ctx context.Context, node string, leases []cluster.Lease, ttl time.Duration) []error {
	time.Sleep(l.renewTakes)
	errs := make([]error, len(leases))
	if err := l.up(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer time.Sleep(l.leaseReplyTakes)
	defer l.fakeRedis.mu.Unlock()
	l.renewals++
	for i, want := range leases {
		held := l.owner[want.Partition]
		if held.node != node || held.epoch != want.Epoch || !time.Now().Before(held.until) {
			errs[i] = errNotOwner
			continue
		}
		l.owner[want.Partition] = lease{node, want.Epoch, time.Now().Add(ttl)}
	}
	return errs
}

func (l *link) ReleaseLeases(ctx context.Context, node string, leases []cluster.Lease) error {
	if err := l.up(ctx); err != nil {
		return err
	}
	defer l.fakeRedis.mu.Unlock()
	l.releases++
	for _, given := range leases {
		p := given.Partition
		if held := l.owner[p]; held.node == node && held.epoch == given.Epoch {
			delete(l.owner, p)
		}
		if !given.Position.IsZero() && l.epoch[p] == given.Epoch {
			l.position[p] = given.Position
		}
	}
	return nil
}

// fenced is like up, for a write of an owner.
func (l *link) fenced(ctx context.Context, p int, epoch int64) error {
	if err := l.up(ctx); err != nil {
		return err
	}
	refusal := l.refuse
	if l.epoch[p] != epoch {
		refusal = errNotOwner
	}
	if refusal != nil {
		l.fakeRedis.mu.Unlock()
		return refusal
	}
	return nil
}

func (l *link) OwnerPosition(ctx context.Context, p int) (signal.Position, error) {
	if err := l.up(ctx); err != nil {
		return signal.Position{}, err
	}
	defer l.fakeRedis.mu.Unlock()
	return l.position[p], nil
}

func (l *link) StoreOwnerPosition(ctx context.Context, p int, epoch int64, position signal.Position) error {
	if err := l.fenced(ctx, p, epoch); err != nil {
		return err
	}
	defer l.fakeRedis.mu.Unlock()
	l.position[p] = position
	l.stores++
	return nil
}

func (l *link) ReadLog(ctx context.Context, p int, after signal.Position, limit int) ([]signal.Event, error) {
	time.Sleep(time.Millisecond)
	if err := l.up(ctx); err != nil {
		return nil, err
	}
	defer l.fakeRedis.mu.Unlock()
	l.reads++
	if l.readLimit > 0 {
		limit = min(limit, l.readLimit)
	}
	var got []signal.Event
	for _, e := range l.logs[p] {
		if e.Position.Compare(after) > 0 && len(got) < limit {
			got = append(got, e)
		}
	}
	return got, nil
}

func (l *link) ContinuedLogs(ctx context.Context, after map[int]signal.Position) ([]int, error) {
	if err := l.up(ctx); err != nil {
		return nil, err
	}
	defer l.fakeRedis.mu.Unlock()
	l.looks++
	var numbers []int
	for p, position := range after {
		if log := l.logs[p]; len(log) > 0 && log[len(log)-1].Position.Compare(position) > 0 {
			numbers = append(numbers, p)
		}
	}
	return numbers, nil
}

func (l *link) OverdueRuns(ctx context.Context, p int, before time.Time, limit int) ([]signal.RunDue, error) {
	if err := l.up(ctx); err != nil {
		return nil, err
	}
	defer l.fakeRedis.mu.Unlock()
	var got []signal.RunDue
	for _, d := range l.due[p] {
		if d.At.Before(before) && len(got) < limit {
			got = append(got, d)
		}
	}
	return got, nil
}

func (l *link) RunsUnderWay(ctx context.Context, p int) (bool, error) {
	if err := l.up(ctx); err != nil {
		return false, err
	}
	defer l.fakeRedis.mu.Unlock()
	l.sweeps++
	return len(l.due[p]) > 0, nil
}

func (l *link) BeginErase(ctx context.Context, p int, epoch int64, account signal.AccountID, _ time.Time) error {
	if err := l.fenced(ctx, p, epoch); err != nil {
		return err
	}
	defer l.fakeRedis.mu.Unlock()
	if l.undone != nil {
		return l.undone
	}
	l.erased[p] = append(l.erased[p], account)
	l.toErase[p] = 3
	return nil
}

func (l *link) EraseStep(ctx context.Context, p int, epoch int64) (time.Duration, error) {
	if err := l.fenced(ctx, p, epoch); err != nil {
		return 0, err
	}
	defer time.Sleep(l.eraseReplyTakes)
	defer l.fakeRedis.mu.Unlock()
	if l.toErase[p] == 0 {
		return -1, nil
	}
	l.toErase[p]--
	return 0, nil
}

func (l *link) TrimEvents(ctx context.Context, p int, epoch int64) error { return nil }

func (l *link) TrimSignals(ctx context.Context, p int, epoch int64) error {
	if err := l.fenced(ctx, p, epoch); err != nil {
		return err
	}
	defer l.fakeRedis.mu.Unlock()
	l.trims++
	return nil
}

// Compact implements Compactor.
func (l *link) Compact(ctx context.Context, p int, epoch int64) (bool, error) {
	if err := l.fenced(ctx, p, epoch); err != nil {
		return false, err
	}
	defer l.fakeRedis.mu.Unlock()
	if l.uncompact == 0 {
		return false, nil
	}
	l.uncompact--
	l.compacted++
	return true, nil
}

// Append implements Log for the end of a run.
func (l *link) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	p := 0
	if err := l.fenced(ctx, p, c.Epoch); err != nil {
		return signal.Position{}, err
	}
	defer l.fakeRedis.mu.Unlock()
	i := slices.IndexFunc(l.due[p], func(d signal.RunDue) bool { return d.Run == c.Ended })
	if i < 0 {
		return signal.Position{}, conflict("run_ended", "the run has ended already")
	}
	l.due[p] = slices.Delete(l.due[p], i, i+1)
	e := c.Events[0]
	e.Position = signal.Position{MS: time.Now().UnixMilli()}
	l.logs[p] = append(l.logs[p], e)
	return e.Position, nil
}

// node is a process of a test.
type node struct {
	*Partitions
	link *link
	sys  *engine.System
}

// startNode starts a node; options may be nil.
func startNode(t *testing.T, r *fakeRedis, id string, options func(*Options)) *node {
	l := &link{fakeRedis: r}
	o := Options{Tail: l}
	if options != nil {
		options(&o)
	}
	n := &node{link: l, sys: newSystem()}
	n.Partitions = New(n.sys, id, l, l, o)
	t.Cleanup(func() { n.stop(t) })
	return n
}

// startOne starts a node that owns the only partition.
func startOne(t *testing.T) (*node, *fakeRedis) {
	r := newFakeRedis(1)
	n := startNode(t, r, "a", nil)
	time.Sleep(time.Second)
	return n, r
}

// publish appends an event to the log and publishes it to the node.
func (n *node) publish(account signal.AccountID, t signal.EventType) signal.Event {
	e := n.link.append(0, account, t)
	n.Publish(0, []signal.Event{e})
	return e
}

func (n *node) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.sys.Shutdown(ctx); err != nil {
		t.Errorf("shut a node down: %v", err)
	}
}

// wantOwned checks how many partitions nodes believe that they own.
func wantOwned(t *testing.T, when string, want map[*node]int) {
	t.Helper()
	for n, count := range want {
		if got := n.Owned(); got != count {
			t.Errorf("%s: node %s owns %d partitions, want %d", when, n.node, got, count)
		}
	}
}

func name(i int) signal.AccountID { return signal.AccountID(fmt.Sprintf("acc_%06d", i)) }

func newSystem() *engine.System { return engine.NewSystem(engine.Options{}) }

// overdueTwice lists a run that has already ended before the others.
type overdueTwice struct{ *link }

func (o overdueTwice) OverdueRuns(ctx context.Context, p int, before time.Time, limit int) ([]signal.RunDue, error) {
	got, err := o.link.OverdueRuns(ctx, p, before, limit)
	return append([]signal.RunDue{{Run: "run_0", Agent: "seo", Account: "acc_1"}}, got...), err
}

// fakeWebhooks records the calls for one partition. It implements Webhooks,
// ownership.Tenant and ownership.Recorder.
type fakeWebhooks struct {
	mu      sync.Mutex
	owned   ownership.Owned
	epochs  []int64          // of Start
	calls   [][]signal.Event // of Record
	failing error            // result of Record
	open    signal.Position  // later deliveries are not stored; zero: all are
	removed int              // steps of erasing that are left
	erases  int              // calls of EraseWebhooks
	broken  error            // result of EraseWebhooks
}

func (w *fakeWebhooks) Start(_ engine.Context, o ownership.Owned) ownership.Follower {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owned, w.epochs = o, append(w.epochs, o.Epoch)
	return w
}

func (w *fakeWebhooks) Follow([]signal.Event) {}

func (w *fakeWebhooks) Record(_ context.Context, events []signal.Event) error {
	time.Sleep(time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, slices.Clone(events))
	return w.failing
}

func (w *fakeWebhooks) Stored(handled signal.Position) signal.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open.IsZero() && w.open.Compare(handled) < 0 {
		return w.open
	}
	return handled
}

func (w *fakeWebhooks) EraseWebhooks(context.Context, int, int64) (more bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erases++
	if w.broken != nil || w.removed == 0 {
		return false, w.broken
	}
	w.removed--
	return true, nil
}

// set changes the results, seen returns the recorded calls.
func (w *fakeWebhooks) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *fakeWebhooks) seen() (calls [][]signal.Event, epochs []int64, erases int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls), slices.Clone(w.epochs), w.erases
}
