package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// TestJobTakeover: a worker dies before the outcome; another node takes the idle job, and only
// one outcome is stored.
func TestJobTakeover(t *testing.T) {
	b := newJobBench(t, 4)
	first, second := b.jobs("n1", time.Hour), b.jobs("n2", 30*time.Millisecond)
	account := signal.NewAccountID()
	job := b.enqueue(first, account)
	lost := b.next(first)

	again := b.next(second)
	if again.ID != job.ID || again.Run != job.Run || again.Attempt != 2 || !again.StartedAt.Equal(lost.StartedAt) {
		t.Errorf("taken over: %+v, want attempt 2 of %s", again, job.ID)
	}
	// The first worker was only slow.
	if _, err := b.complete(lost); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("outcome of the lost attempt: %v, want a conflict", err)
	}
	s, err := b.complete(again)
	if err != nil {
		t.Fatal(err)
	}
	got, err := second.Job(t.Context(), account, job.ID)
	if err != nil || got.Signal == nil || got.Signal.ID != s.ID {
		t.Errorf("job is %+v, %v; want the signal of the second attempt", got, err)
	}
	p := b.store.Partition(account)
	if n := b.server.Client().XLen(t.Context(), b.store.SignalsKey(p)).Val(); n != 1 {
		t.Errorf("%d signals are stored, want 1", n)
	}
	if n := b.server.Client().XPending(t.Context(), b.store.JobQueueKey(p), eventlog.JobGroup).Val().Count; n != 0 {
		t.Errorf("%d entries are pending, want 0", n)
	}
}

// TestJobOfLostNode: if the live nodes are known, only the jobs of other nodes are taken, and at
// once.
func TestJobOfLostNode(t *testing.T) {
	b := newJobBench(t, 2)
	dead, live, me := b.jobs("dead", 0), b.jobs("live", 0), b.jobs("me", time.Hour)
	account := signal.NewAccountID()
	ctx := t.Context()
	lost := b.enqueue(dead, account)
	b.next(dead)
	b.enqueue(live, account)
	b.next(live)
	for _, node := range []string{"live", "me"} {
		if _, err := b.store.Nodes.AnnounceNode(ctx, node, time.Minute, false); err != nil {
			t.Fatal(err)
		}
	}
	if again := b.next(me); again.ID != lost.ID || again.Attempt != 2 {
		t.Errorf("took %s attempt %d, want the job of the dead node", again.ID, again.Attempt)
	}
	if jobs, err := me.Next(ctx, 10); len(jobs) != 0 || err != nil {
		t.Errorf("took %d jobs of a live node (%v)", len(jobs), err)
	}
}

// TestUnannouncedNodeTakesNoJobs: a node that is not among the live ones takes no jobs of
// others, whose announcements may be lost as well.
func TestUnannouncedNodeTakesNoJobs(t *testing.T) {
	b := newJobBench(t, 1)
	busy, me := b.jobs("busy", time.Hour), b.jobs("me", time.Hour)
	job := b.enqueue(busy, signal.NewAccountID())
	entry := b.next(busy).Entry.String()
	ctx := t.Context()
	err := b.server.Client().Do(ctx, "XCLAIM", b.store.JobQueueKey(0), eventlog.JobGroup, "busy", 0, entry,
		"IDLE", (10 * lostIdle).Milliseconds(), "JUSTID").Err()
	if err != nil {
		t.Fatal(err)
	}
	announce := func(node string) {
		t.Helper()
		if _, err := b.store.Nodes.AnnounceNode(ctx, node, time.Minute, false); err != nil {
			t.Fatal(err)
		}
	}
	announce("third")
	if jobs, err := me.Next(ctx, 10); len(jobs) != 0 || err != nil {
		t.Errorf("a node that is not announced took %d jobs of another (%v)", len(jobs), err)
	}
	announce("me")
	if again := b.next(me); again.ID != job.ID || again.Attempt != 2 {
		t.Errorf("took %s attempt %d, want the job of a node that is not live", again.ID, again.Attempt)
	}
}

// TestJobOfFormerProcess: a restarted node takes its jobs back at once.
func TestJobOfFormerProcess(t *testing.T) {
	b := newJobBench(t, 4)
	former := b.jobs("n1", time.Hour)
	var want []signal.JobID
	for range 5 {
		want = append(want, b.enqueue(former, signal.NewAccountID()).ID)
	}
	for range want {
		b.next(former)
	}
	restarted := b.jobs("n1", time.Hour)
	var got []signal.JobID
	for range want {
		job := b.next(restarted)
		if job.Attempt != 2 {
			t.Errorf("attempt %d, want 2", job.Attempt)
		}
		got = append(got, job.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("jobs (-want +got):\n" + diff)
	}
}

// TestJobOfLostReply: the script has taken a job, and its reply was lost.
func TestJobOfLostReply(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", time.Hour)
	account := signal.NewAccountID()
	held := b.enqueue(j, account)
	if got := b.next(j); got.ID != held.ID {
		t.Fatalf("took %s, want %s", got.ID, held.ID)
	}
	lost := b.enqueue(j, account)
	unheard := b.jobs("n1", time.Hour)
	unheard.queue.nextLeft = time.Now().Add(time.Hour)
	if got := b.next(unheard); got.ID != lost.ID {
		t.Fatalf("took %s, want %s", got.ID, lost.ID)
	}
	if got := b.next(j); got.ID != lost.ID || got.Attempt != 2 {
		t.Errorf("took %s attempt %d, want the job of the lost reply", got.ID, got.Attempt)
	}
	j.queue.nextLeft = time.Time{}
	if jobs, err := j.search(t.Context(), 10); len(jobs) != 0 || err != nil {
		t.Errorf("took %d jobs that it works on (%v)", len(jobs), err)
	}
}

// TestJobWithoutOutcome: a job that a worker has given up is taken again; one that it works on
// is not, however slow the worker is.
func TestJobWithoutOutcome(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", time.Millisecond)
	slow := b.enqueue(j, signal.NewAccountID())
	b.next(j)
	given := b.enqueue(j, signal.NewAccountID())
	up := b.next(j)
	j.Done(up)
	if again := b.next(j); again.ID != given.ID || again.Attempt != 2 {
		t.Errorf("took %s attempt %d, want attempt 2 of the abandoned job", again.ID, again.Attempt)
	}
	time.Sleep(5 * time.Millisecond) // beyond Idle
	j.queue.nextLeft = time.Time{}
	if jobs, err := j.search(t.Context(), 10); len(jobs) != 0 || err != nil {
		t.Errorf("took %v (%v), though %s is running", jobs, err, slow.ID)
	}
}

func TestJobOfErasedAccount(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	b.enqueue(j, account)
	running := b.next(j)
	b.enqueue(j, account)
	for cursor := "more"; cursor != ""; {
		var err error
		if cursor, err = Erase(t.Context(), b.store.Client, 0, account); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.complete(running); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("outcome after erasure: %v, want a conflict", err)
	}
	other := b.enqueue(j, signal.NewAccountID())
	if got := b.next(j); got.ID != other.ID {
		t.Errorf("took %s, want the other account's job", got.ID)
	}
	if _, total, err := j.Jobs(t.Context(), account, "", 10, 0); total != 0 || err != nil {
		t.Errorf("%d jobs are left (%v)", total, err)
	}
	restarted := b.jobs("n1", 0) // finds the running job's entry and drops it
	if got := b.next(restarted); got.ID != other.ID {
		t.Errorf("took back %s, want only the other account's job", got.ID)
	}
	if n := b.server.Client().XLen(t.Context(), b.store.JobQueueKey(0)).Val(); n != 1 {
		t.Errorf("the queue has %d entries, want 1", n)
	}
}

// TestJobsAfterDataLoss: a Redis that has lost its data has no group, and its ids may be
// lower than earlier ones.
func TestJobsAfterDataLoss(t *testing.T) {
	b := newJobBench(t, 2)
	j := b.jobs("n1", 0)
	b.enqueue(j, signal.NewAccountID())
	b.next(j)
	storetest.Must(t, b.server.Client().FlushAll(t.Context()).Err())
	for p := range j.queue.cursors {
		j.queue.cursors[p] = signal.Position{MS: 1 << 50}
	}
	want := b.enqueue(j, signal.NewAccountID())
	if got := b.next(j); got.ID != want.ID {
		t.Errorf("took %s, want %s", got.ID, want.ID)
	}
}

func TestJobsWithoutRedis(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	b.server.Kill()
	err := j.Enqueue(t.Context(), newTestJob(signal.NewAccountID(), time.Now()), 1, nil)
	storetest.WantKind(t, "enqueue", err, signal.KindUnavailable)
	_, err = j.Next(t.Context(), 1)
	storetest.WantKind(t, "next", err, signal.KindUnavailable)
	b.server.Restart()
	want := b.enqueue(j, signal.NewAccountID())
	if got := b.next(j); got.ID != want.ID {
		t.Errorf("took %s, want %s", got.ID, want.ID)
	}
}

// On a cluster a node polls the queues, and reports that Redis refuses it.
func TestPollingIsRefused(t *testing.T) {
	b := newJobBench(t, 1)
	b.server.Deny("-xread")
	err := b.jobs("n1", 0).poll(t.Context(), time.Millisecond)
	storetest.WantKind(t, "poll", err, signal.KindUnavailable)
	if reason, ofSetting := redisclient.Refusal(err); reason != redisclient.LacksRights || !ofSetting {
		t.Errorf("got %q (%t) of %v, want %q", reason, ofSetting, err, redisclient.LacksRights)
	}
}

// TestTakenEntriesAreStartedOnce: a node may end, or pause, between the two scripts that take a job.
func TestTakenEntriesAreStartedOnce(t *testing.T) {
	b := newJobBench(t, 1)
	paused, account := b.jobs("n1", time.Hour), signal.NewAccountID()
	want := b.enqueue(paused, account)
	take := func(limit int) []any {
		t.Helper()
		entries, err := takeScript.Run(t.Context(), b.store.RDB, []string{b.store.JobQueueKey(0)}, "n1", limit, "new").Slice()
		if err != nil || len(entries) != 1 {
			t.Fatalf("took %v, %v", entries, err)
		}
		return entries
	}
	take(10)
	got := b.next(b.jobs("n1", time.Hour))
	if got.ID != want.ID || got.Attempt != 1 {
		t.Errorf("a job that was not started is taken as attempt %d of %s", got.Attempt, got.ID)
	}
	if _, err := b.complete(got); err != nil {
		t.Fatal(err)
	}
	want = b.enqueue(paused, account)
	entries := take(10)
	if got := b.next(b.jobs("n2", time.Nanosecond)); got.ID != want.ID || got.Attempt != 1 {
		t.Errorf("another node takes attempt %d of %s", got.Attempt, got.ID)
	}
	if started, err := paused.start(t.Context(), 0, entries); len(started) != 0 || err != nil {
		t.Errorf("a node that was paused starts a job of another one: %v, %v", started, err)
	}
}
