package jobs

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/requests"
	"github.com/agentsignal/agentsignal/persistence/signals"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

var newTestJob = storetest.Job

// jobBench is a store with a log, for the tests of jobs.
type jobBench struct {
	t      *testing.T
	server *redistest.Server
	store  *eventlog.Store
	log    *eventlog.Log
}

func newJobBench(t *testing.T, partitions int) *jobBench {
	t.Helper()
	t.Parallel()
	r := redistest.New(t)
	s := eventlog.New(storetest.Client(t, redisclient.Options{URL: r.URL(), Partitions: partitions}))
	return &jobBench{t, r, s, storetest.Closing(t, eventlog.NewLog(s, eventlog.LogOptions{}))}
}

// jobs returns the jobs as the named node sees them.
func (b *jobBench) jobs(node string, idle time.Duration) *Store {
	return New(b.store.Client, node, Options{Idle: idle, Search: 20 * time.Millisecond})
}

func (b *jobBench) enqueue(j *Store, account signal.AccountID) signal.Job {
	b.t.Helper()
	job := newTestJob(account, b.store.Now())
	storetest.Must(b.t, j.Enqueue(b.t.Context(), job, 1000, nil))
	return job
}

func (b *jobBench) next(j *Store) signal.Job {
	b.t.Helper()
	return storetest.NextJob(b.t, j)
}

// complete appends the end of job with a signal, and returns that.
func (b *jobBench) complete(job signal.Job) (*signal.Signal, error) {
	return storetest.CompleteJob(b.t, b.log, job, b.store.Now())
}

var errNoSource = &signal.RunError{
	Code: signal.DataUnavailable, Message: "no source knows NOSUCH", RetryAfter: 2 * time.Second,
}

func (b *jobBench) fail(job signal.Job, kept time.Duration) error {
	now := b.store.Now()
	job.Status, job.Error = signal.JobFailed, errNoSource
	job.CompletedAt, job.ExpiresAt = now, now.Add(kept).Truncate(time.Millisecond)
	_, err := b.log.Append(b.t.Context(), signal.Change{Account: job.Request.Account, Job: &job, Events: []signal.Event{
		{Type: signal.AgentFailed, Agent: "trading", Run: job.Run, Data: []byte(`{}`)}}})
	return err
}

func TestJobLife(t *testing.T) {
	b := newJobBench(t, 4)
	j := b.jobs("n1", 0)
	ctx, account := t.Context(), signal.NewAccountID()
	job := b.enqueue(j, account)

	got, err := j.Job(ctx, account, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job, got); diff != "" {
		t.Error("queued job (-want +got):\n" + diff)
	}
	if n, err := j.Waiting(ctx); n != 1 || err != nil {
		t.Errorf("%d jobs wait (%v), want 1", n, err)
	}

	running := b.next(j)
	if running.Status != signal.JobRunning || running.Attempt != 1 ||
		running.StartedAt.IsZero() || running.Entry.IsZero() {
		t.Errorf("taken job is %+v", running)
	}
	if n, err := j.Waiting(ctx); n != 0 || err != nil {
		t.Errorf("%d jobs wait (%v) while one runs, want 0", n, err)
	}
	got, err = j.Job(ctx, account, job.ID)
	want := running
	want.Entry = signal.Position{}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("running job: %v (-want +got):\n%s", err, diff)
	}

	s, err := b.complete(running)
	if err != nil {
		t.Fatal(err)
	}
	got, err = j.Job(ctx, account, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != signal.JobCompleted || !got.CompletedAt.Equal(s.CreatedAt) || got.ExpiresAt.IsZero() {
		t.Errorf("completed job is %+v", got)
	}
	if diff := cmp.Diff(s, got.Signal); diff != "" {
		t.Error("its signal (-want +got):\n" + diff)
	}
	created := signal.Position{MS: s.CreatedAt.UnixMilli(), Seq: 1}
	stored, err := signals.New(b.store).SignalByID(ctx, account, s.ID, created, signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, stored); diff != "" {
		t.Error("the signal of the log (-returned +stored):\n" + diff)
	}

	// A second outcome is refused.
	if _, err := b.complete(running); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("second outcome: %v, want a conflict", err)
	}
	if n := b.server.Client().XLen(ctx, b.store.JobQueueKey(b.store.Partition(account))).Val(); n != 0 {
		t.Errorf("the queue still has %d entries", n)
	}
	if _, err := j.Job(ctx, signal.NewAccountID(), job.ID); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("another account's view: %v, want not found", err)
	}
}

func TestTimesOfAJobAreInOrder(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	job := newTestJob(signal.NewAccountID(), b.store.Now().Add(time.Minute)) // by a clock that is ahead
	storetest.Must(t, j.Enqueue(t.Context(), job, 1000, nil))
	running := b.next(j)
	if !running.StartedAt.Equal(job.CreatedAt) {
		t.Errorf("created %v, started %v", job.CreatedAt, running.StartedAt)
	}
	if _, err := b.complete(running); err != nil {
		t.Fatal(err)
	}
	got, err := j.Job(t.Context(), job.Request.Account, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !got.StartedAt.Equal(job.CreatedAt) || !got.CompletedAt.Equal(job.CreatedAt) {
		t.Errorf("created %v, started %v, completed %v", job.CreatedAt, got.StartedAt, got.CompletedAt)
	}
}

func TestJobFails(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	b.enqueue(j, account)
	running := b.next(j)
	storetest.Must(t, b.fail(running, time.Hour))
	got, err := j.Job(t.Context(), account, running.ID)
	diff := cmp.Diff(errNoSource, got.Error)
	if diff != "" || err != nil || got.Status != signal.JobFailed || got.Signal != nil {
		t.Errorf("failed job %+v, %v (-want +got):\n%s", got, err, diff)
	}
}

func TestJobsAreForgotten(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	short, long := b.enqueue(j, account), b.enqueue(j, account)
	for range 2 {
		job := b.next(j)
		kept := time.Hour
		if job.ID == short.ID {
			kept = 50 * time.Millisecond
		}
		storetest.Must(t, b.fail(job, kept))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := j.Job(t.Context(), account, short.ID); signal.KindOf(err) == signal.KindNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the job is still there")
		}
	}
	for _, status := range []signal.JobStatus{"", signal.JobFailed} {
		list, total, err := j.Jobs(t.Context(), account, status, 10, 0)
		if err != nil || total != 1 || len(list) != 1 || list[0].ID != long.ID {
			t.Errorf("status %q: %d jobs of %d, %v; want the one that is kept", status, len(list), total, err)
		}
	}
	if ttl := b.server.Client().TTL(t.Context(), b.store.JobKey(0, long.ID)).Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("an ended job lives %v, want an hour", ttl)
	}
	if ttl := b.server.Client().TTL(t.Context(), b.store.JobsOfKey(0, account)).Val(); ttl <= time.Hour {
		t.Errorf("the index lives %v, want more than its jobs", ttl)
	}
}

// The index of an account's jobs expires some time after the end of the last one. A job that
// waits longer is still listed, and erased with its account.
func TestQueuedJobStaysInIndex(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	b.enqueue(j, account)
	storetest.Must(t, b.fail(b.next(j), time.Hour))
	index := b.store.JobsOfKey(0, account)
	if ttl := b.server.Client().TTL(t.Context(), index).Val(); ttl <= 0 {
		t.Fatalf("without a job that waits the index lives %v, want a while", ttl)
	}
	b.enqueue(j, account)
	if ttl := b.server.Client().TTL(t.Context(), index).Val(); ttl != -1 {
		t.Errorf("with a job that waits the index lives %v, want for ever", ttl)
	}
}

func TestJobList(t *testing.T) {
	b := newJobBench(t, 2)
	j := b.jobs("n1", 0)
	ctx, account := t.Context(), signal.NewAccountID()
	b.enqueue(j, signal.NewAccountID()) // of another account
	var all []signal.JobID
	for range 7 {
		all = append(all, b.enqueue(j, account).ID)
	}
	slices.Reverse(all)
	if _, total, err := j.Jobs(ctx, account, "", 3, 0); total != 7 || err != nil {
		t.Fatalf("total %d, %v; want 7", total, err)
	}
	// Two run, one of them ends.
	var taken []signal.Job
	for len(taken) < 2 {
		if job := b.next(j); job.Request.Account == account {
			taken = append(taken, job)
		}
	}
	storetest.Must(t, b.fail(taken[0], time.Hour))
	for _, c := range []struct {
		status        signal.JobStatus
		limit, offset int
		want          []signal.JobID
		total         int
	}{
		{"", 3, 0, all[:3], 7},
		{"", 3, 6, all[6:], 7},
		{"", 3, 7, nil, 7},
		{signal.JobQueued, 10, 0, all[:5], 5},
		{signal.JobQueued, 2, 4, all[4:5], 5},
		{signal.JobRunning, 10, 0, []signal.JobID{taken[1].ID}, 1},
		{signal.JobFailed, 10, 0, []signal.JobID{taken[0].ID}, 1},
		{signal.JobCompleted, 10, 0, nil, 0},
	} {
		list, total, err := j.Jobs(ctx, account, c.status, c.limit, c.offset)
		if err != nil {
			t.Fatal(err)
		}
		var got []signal.JobID
		for _, job := range list {
			got = append(got, job.ID)
			if c.status != "" && job.Status != c.status {
				t.Errorf("job with status %s in the list of %s", job.Status, c.status)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || total != c.total {
			t.Errorf("status %q limit %d offset %d: total %d, want %d (-want +got):\n%s",
				c.status, c.limit, c.offset, total, c.total, diff)
		}
	}
}

func TestJobLimit(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	ctx, account := t.Context(), signal.NewAccountID()
	for i := range 3 {
		err := j.Enqueue(ctx, newTestJob(account, b.store.Now()), 2, nil)
		if i < 2 && err != nil {
			t.Fatal(err)
		}
		if i == 2 && signal.KindOf(err) != signal.KindTooMany {
			t.Errorf("third job: %v, want too many", err)
		}
	}
	if err := j.Enqueue(ctx, newTestJob(signal.NewAccountID(), b.store.Now()), 2, nil); err != nil {
		t.Errorf("another account: %v", err)
	}
	b.next(j)
	b.next(j)
	b.next(j)
	if err := j.Enqueue(ctx, newTestJob(account, b.store.Now()), 2, nil); err != nil {
		t.Errorf("a running job counts as queued: %v", err)
	}
}

func TestJobIsEnqueuedOnce(t *testing.T) {
	b := newJobBench(t, 1)
	j := b.jobs("n1", 0)
	account := signal.NewAccountID()
	job := newTestJob(account, b.store.Now())
	key := signal.ReplyKey{Method: "POST", Path: "/v1/agents/seo/run", Key: "k", RequestHash: [32]byte{1}}
	replies := requests.New(b.store.Client, signals.New(b.store))
	if r, err := replies.Claim(t.Context(), account, key); r != nil || err != nil {
		t.Fatal(r, err)
	}
	header := map[string]string{"Location": "/v1/jobs/x"}
	reply := &signal.Reply{ReplyKey: key, Status: 200, Header: header, Body: []byte(`{"job_id":"x"}`)}
	for range 3 { // as after lost replies
		storetest.Must(t, j.Enqueue(t.Context(), job, 1, reply))
	}
	rdb := b.server.Client()
	if n := rdb.XLen(t.Context(), replies.JobQueueKey(0)).Val(); n != 1 {
		t.Errorf("the queue has %d entries, want 1", n)
	}
	ttl := rdb.TTL(t.Context(), replies.ReplyKey(0, account, codec.ReplyDigest(&key))).Val()
	if ttl <= eventlog.ReplyRetention-time.Minute || ttl > eventlog.ReplyRetention {
		t.Errorf("the reply is kept for %s, want %s", ttl, eventlog.ReplyRetention)
	}
	got, err := replies.Claim(t.Context(), account, key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reply, got); diff != "" {
		t.Error("reply (-want +got):\n" + diff)
	}
}

// TestJobsAreDistributed: several nodes take many jobs. Each job is taken once, and no node takes
// more than its limit.
func TestJobsAreDistributed(t *testing.T) {
	b := newJobBench(t, 4)
	const jobs, nodes, limit = 200, 3, 5
	taken := make(chan signal.Job, jobs*2)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for n := range nodes {
		wg.Go(func() {
			j := b.jobs(fmt.Sprint("n", n), time.Hour)
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, err := j.Next(t.Context(), limit)
				if err != nil {
					t.Error(err)
					return
				}
				if len(got) > limit {
					t.Errorf("took %d jobs at once, want at most %d", len(got), limit)
				}
				for _, job := range got {
					if err := b.fail(job, time.Hour); err != nil {
						t.Error(err)
					}
					taken <- job
				}
			}
		})
	}
	j := b.jobs("client", time.Hour)
	want := map[signal.JobID]bool{}
	for range jobs {
		want[b.enqueue(j, signal.NewAccountID()).ID] = true
	}
	timeout := time.After(30 * time.Second)
	for range jobs {
		select {
		case job := <-taken:
			if !want[job.ID] || job.Attempt != 1 {
				t.Errorf("job %s was taken twice, or is not ours", job.ID)
			}
			delete(want, job.ID)
		case <-timeout:
			t.Fatalf("%d jobs were not taken", len(want))
		}
	}
	close(stop)
	wg.Wait()
}

// TestJobsByPolling: on a cluster the queues are polled.
func TestJobsByPolling(t *testing.T) {
	b := newJobBench(t, 4)
	j := b.jobs("n1", 0)
	if jobs, err := j.search(t.Context(), 1); len(jobs) > 0 || err != nil {
		t.Fatal(jobs, err)
	}
	want := b.enqueue(j, signal.NewAccountID())
	storetest.Must(t, j.poll(t.Context(), time.Minute))
	if jobs, err := j.search(t.Context(), 1); len(jobs) != 1 || jobs[0].ID != want.ID || err != nil {
		t.Errorf("took %v, %v; want %s", jobs, err, want.ID)
	}
	if err := j.poll(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
}

func FuzzDecodeJob(f *testing.F) {
	now := time.UnixMilli(1795253400123).UTC()
	job := newTestJob(signal.NewAccountID(), now)
	request := string(codec.AppendJobRequest(nil, &job))
	job.ExpiresAt = now.Add(time.Hour)
	job.Error = &signal.RunError{Code: signal.Timeout, Message: "slow", Retryable: true}
	f.Add("error 2", "1795253400123", request, "1795253400123-0 "+string(codec.AppendJobOutcome(nil, &job)))
	job.Error, job.Signal = nil, storetest.JobSignal(job, now)
	f.Add("completed 1", "1795253400123", request, "1795253400123-4 "+string(codec.AppendJobOutcome(nil, &job)))
	silent := job
	silent.Signal, silent.Reason = nil, "nothing to do"
	f.Add("completed 1", "1795253400123", request, "1795253400123-4 "+string(codec.AppendJobOutcome(nil, &silent)))
	f.Add("queued 0", "", request, "")
	scan := job
	scan.Kind, scan.Assets = signal.JobScan, []string{"BTC", "ETH"}
	scan.Signal, scan.Result = nil, []byte(`{"ranked":[]}`)
	f.Add("completed 1", "1795253400123", string(codec.AppendJobRequest(nil, &scan)),
		"1795253400123-4 "+string(codec.AppendJobOutcome(nil, &scan)))
	f.Add("", "x", "\x01", "-")
	f.Fuzz(func(t *testing.T, state, started, request, outcome string) {
		got, err := codec.DecodeJob("job_1", state, started, request, outcome)
		if err != nil {
			return
		}
		// What can be read can be written, and is the same then.
		again := string(codec.AppendJobRequest(nil, &got))
		var end string
		if got.Status == signal.JobCompleted || got.Status == signal.JobFailed {
			at, _, _ := codec.CutStamp([]byte(outcome))
			if got.Signal != nil {
				got.Signal.CreatedAt = at.Time()
			}
			end = at.String() + " " + string(codec.AppendJobOutcome(nil, &got))
		}
		twice, err := codec.DecodeJob("job_1", codec.JobStateText(got.Status, got.Attempt), started, again, end)
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		opts := cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })
		if diff := cmp.Diff(got, twice, opts); diff != "" {
			t.Fatal("job (-first +second):\n" + diff)
		}
	})
}

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 11, map[string][]string{
		"they stop the server or set it up by ACL": {"TestJobsWithoutRedis", "TestPollingIsRefused"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
