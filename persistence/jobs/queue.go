package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Two scripts take a job, since only its entry names its keys: the first reads the queue as the node's
// consumer of the group, the second marks the job as running. The group stores which node holds
// which entry, and since when, so a job whose node ends between the two is taken as one that was
// abandoned. A blocking read of the group would take COUNT entries of every
// partition, more than there are free workers, and they would wait here while other nodes are
// idle. So the wait is a plain read of all queues, which takes nothing and only finds the
// partitions with new entries.

const (
	// lostIdle is how long an entry stays with a node that is not live, since the node may be
	// about to announce itself.
	lostIdle = time.Second
	// clusterPoll is the pause between two polls of the queues of a cluster, which are in
	// different slots, so that no single command can wait for them.
	clusterPoll = 200 * time.Millisecond
	// wakeCount is how many entries of a queue a wait reads at most.
	wakeCount = 100
)

// queueReader is the state of Next. One goroutine at a time uses it.
type queueReader struct {
	cursors  []signal.Position // by partition: entries up to here have been seen
	more     []bool            // by partition: there may be something to take
	nextLeft time.Time         // when to search for abandoned jobs
}

func newQueueReader(partitions int) queueReader {
	q := queueReader{cursors: make([]signal.Position, partitions), more: make([]bool, partitions)}
	for p := range q.more {
		q.more[p] = true
	}
	return q
}

// Next takes up to limit jobs. They are running, with their attempt counted, until an outcome
// is appended. The caller must call Done for each job in the end.
//
// Another node takes a job over when this one is no longer live, or after Options.Idle. This
// node takes back jobs that are done without an outcome, and jobs it does not know because a
// reply of Redis was lost. If there is no job, Next waits for about a second at most. An error,
// KindUnavailable, may come with jobs that were taken before it.
func (j *Store) Next(ctx context.Context, limit int) ([]signal.Job, error) {
	jobs, err := j.search(ctx, limit)
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	if err := j.wait(ctx); err != nil {
		return nil, err
	}
	return j.search(ctx, limit)
}

// Done records that this process no longer works on job. If no outcome was stored, the job is
// taken again.
func (j *Store) Done(job signal.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held[j.store.Partition(job.Request.Account)], job.Entry)
}

// hold records that this process works on jobs of partition p.
func (j *Store) hold(p int, jobs []signal.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	again := 0
	for i := range jobs {
		j.held[p][jobs[i].Entry] = struct{}{}
		if jobs[i].Attempt > 1 {
			again++
		}
	}
	j.reclaimed(again)
}

// heldIn returns the number of entries of partition p that this process works on, and then the
// entries.
func (j *Store) heldIn(p int) []any {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := make([]any, 1, 1+len(j.held[p]))
	entries[0] = len(j.held[p])
	for e := range j.held[p] {
		entries = append(entries, e.String())
	}
	return entries
}

// search takes jobs without waiting.
func (j *Store) search(ctx context.Context, limit int) (jobs []signal.Job, err error) {
	q := &j.queue
	defer func() {
		if err != nil {
			q.nextLeft = time.Time{} // the script may have taken jobs
		}
	}()
	if now := time.Now(); now.After(q.nextLeft) {
		// Not by the cursors: a Redis that has lost its data or its clock wakes no wait.
		if q.more, err = j.filled(ctx); err != nil {
			return nil, err
		}
		if jobs, err = j.takeLeft(ctx, limit, slices.Clone(q.more)); err != nil {
			return jobs, err
		}
		if len(jobs) < limit {
			q.nextLeft = now.Add(j.pause)
		}
	}
	start := rand.IntN(len(q.more)) // so that no partition is always the first
	for i := range q.more {
		p := (start + i) % len(q.more)
		left := limit - len(jobs)
		if !q.more[p] || left <= 0 {
			continue
		}
		found, read, e := j.take(ctx, p, left, "new")
		jobs = append(jobs, found...)
		if e != nil {
			return jobs, e
		}
		q.more[p] = read == left
	}
	return jobs, nil
}

// filled returns, by partition, whether there are waiting or running jobs. Most queues of an idle
// installation are empty, which one pipeline of cheap commands finds.
func (j *Store) filled(ctx context.Context) ([]bool, error) {
	pipe := j.store.RDB.Pipeline()
	lengths := make([]*redis.IntCmd, j.store.Partitions())
	for p := range lengths {
		lengths[p] = pipe.XLen(ctx, j.store.JobQueueKey(p))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "look for jobs")
	}
	filled := make([]bool, len(lengths))
	for p := range filled {
		filled[p] = lengths[p].Val() > 0
	}
	return filled, nil
}

// takeLeft takes jobs of the filled queues that no process works on, or that one has held for too long.
func (j *Store) takeLeft(ctx context.Context, limit int, filled []bool) ([]signal.Job, error) {
	if !slices.Contains(filled, true) {
		return nil, nil
	}
	live, err := j.liveNodes(ctx)
	if err != nil {
		return nil, err
	}
	idle := "-"
	if len(live) > 0 {
		idle = strconv.FormatInt(lostIdle.Milliseconds(), 10)
	}
	var jobs []signal.Job
	for p := range j.store.Partitions() {
		if len(jobs) >= limit {
			break
		}
		if !filled[p] {
			continue
		}
		args := slices.Concat([]any{j.idle.Milliseconds(), idle}, j.heldIn(p), live)
		found, _, err := j.take(ctx, p, limit-len(jobs), "left", args...)
		jobs = append(jobs, found...)
		if err != nil {
			return jobs, err
		}
	}
	if len(jobs) > 0 {
		j.log.Info("abandoned jobs were taken", "component", "persistence", "jobs", len(jobs))
	}
	return jobs, nil
}

// liveNodes returns the live nodes, or nil if this one is not among them, because the
// announcements of the others may be lost, too.
func (j *Store) liveNodes(ctx context.Context) ([]any, error) {
	live := &redis.ZRangeBy{Min: "(" + strconv.FormatInt(j.store.Now().UnixMilli(), 10), Max: "+inf"}
	members, err := j.store.RDB.ZRangeByScore(ctx, j.store.NodesKey(), live).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read live nodes")
	}
	var nodes []any
	for _, m := range members {
		node, _, _ := strings.Cut(m, " ")
		nodes = append(nodes, node)
	}
	if !slices.Contains(nodes, any(j.consumer)) {
		return nil, nil
	}
	return nodes, nil
}

// take takes jobs of partition p. read is how many entries it has read.
func (j *Store) take(ctx context.Context, p, limit int, mode string, args ...any) (jobs []signal.Job, read int, err error) {
	if limit <= 0 {
		return nil, 0, nil
	}
	all := append([]any{j.consumer, limit, mode}, args...)
	entries, err := takeScript.Run(ctx, j.store.RDB, []string{j.store.JobQueueKey(p)}, all...).Slice()
	if err != nil {
		return nil, 0, redisclient.Failed(err, "take jobs of partition %d", p)
	}
	if len(entries) == 0 {
		return nil, 0, nil
	}
	started, err := j.start(ctx, p, entries)
	if err != nil {
		return nil, 0, err
	}
	for _, item := range started {
		job, err := decodeTaken(redisclient.Texts(item))
		if err != nil {
			// It stays in the queue, since another version may be able to read it.
			j.log.Error("a job is not readable", "component", "persistence", "partition", p, "err", err)
			continue
		}
		if mode == "new" && job.Entry.Compare(j.queue.cursors[p]) > 0 {
			j.queue.cursors[p] = job.Entry
		}
		jobs = append(jobs, job)
	}
	j.hold(p, jobs)
	return jobs, len(entries), nil
}

// start marks the jobs of taken entries as running. It returns what the script returns.
func (j *Store) start(ctx context.Context, p int, entries []any) ([]any, error) {
	keys, args := []string{j.store.JobQueueKey(p)}, []any{j.consumer}
	for _, e := range entries {
		f := redisclient.Texts(e)
		if len(f) != 3 {
			return nil, fmt.Errorf("taken entry has %d fields", len(f))
		}
		id, account := signal.JobID(f[1]), signal.AccountID(f[2])
		keys = append(keys, j.store.JobKey(p, id), j.store.JobsWithKey(p, account, signal.JobQueued),
			j.store.JobsWithKey(p, account, signal.JobRunning))
		args = append(args, f[0], f[1])
	}
	started, err := startScript.Run(ctx, j.store.RDB, keys, args...).Slice()
	return started, redisclient.Failed(err, "start jobs of partition %d", p)
}

// decodeTaken returns a job that the script has taken.
func decodeTaken(f []string) (signal.Job, error) {
	if len(f) != 5 {
		return signal.Job{}, fmt.Errorf("taken job has %d fields", len(f))
	}
	job, err := codec.DecodeJob(signal.JobID(f[1]), string(signal.JobRunning)+" "+f[2], f[3], f[4], "")
	if err != nil {
		return signal.Job{}, err
	}
	entry, ok := signal.ParsePosition(f[0])
	if !ok {
		return signal.Job{}, fmt.Errorf("entry %q of job %s is not a position", f[0], job.ID)
	}
	job.Entry = entry
	return job, nil
}

// wait returns when a queue may have something to take, or after about a second.
func (j *Store) wait(ctx context.Context) error {
	block := redisclient.BlockTimeout
	if left := time.Until(j.queue.nextLeft); left < block {
		block = max(left, time.Millisecond)
	}
	if _, cluster := j.store.RDB.(*redis.ClusterClient); cluster {
		return j.poll(ctx, block)
	}
	streams := make([]string, 2*j.store.Partitions())
	for p := range j.store.Partitions() {
		streams[p], streams[j.store.Partitions()+p] = j.store.JobQueueKey(p), j.queue.cursors[p].String()
	}
	read := &redis.XReadArgs{Streams: streams, Count: wakeCount, Block: block}
	found, err := j.store.Blocking.XRead(ctx, read).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return redisclient.Failed(err, "wait for jobs")
	}
	for _, s := range found {
		for p := range j.store.Partitions() {
			if s.Stream == streams[p] {
				j.seen(p, s.Messages)
			}
		}
	}
	return nil
}

// poll is wait for a cluster.
func (j *Store) poll(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		pipe := j.store.RDB.Pipeline()
		reads := make([]*redis.XStreamSliceCmd, j.store.Partitions())
		for p := range reads {
			stream := []string{j.store.JobQueueKey(p), j.queue.cursors[p].String()}
			reads[p] = pipe.XRead(ctx, &redis.XReadArgs{Streams: stream, Count: wakeCount, Block: -1})
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return redisclient.Failed(err, "poll for jobs")
		}
		any := false
		for p, r := range reads {
			for _, s := range r.Val() {
				j.seen(p, s.Messages)
				any = true
			}
		}
		if any || !time.Now().Before(end) {
			return nil
		}
		if !backoff.Sleep(ctx, clusterPoll) {
			return ctx.Err()
		}
	}
}

// seen records the entries that a wait has found in partition p.
func (j *Store) seen(p int, entries []redis.XMessage) {
	j.queue.more[p] = true
	if n := len(entries); n > 0 {
		if at, ok := signal.ParsePosition(entries[n-1].ID); ok {
			j.queue.cursors[p] = j.queue.cursors[p].Later(at)
		}
	}
}

// Waiting returns the number of queued jobs of the installation.
func (j *Store) Waiting(ctx context.Context) (int64, error) {
	pipe := j.store.RDB.Pipeline()
	lengths := make([]*redis.IntCmd, j.store.Partitions())
	for p := range lengths {
		lengths[p] = pipe.XLen(ctx, j.store.JobQueueKey(p))
	}
	_ = redisclient.Execute(ctx, pipe) // each command has its own error
	pipe = j.store.RDB.Pipeline()
	pending := map[int]*redis.XPendingCmd{}
	for p := range lengths {
		n, err := lengths[p].Result()
		if err != nil {
			return 0, redisclient.Failed(err, "count waiting jobs")
		}
		if n > 0 { // else there may be no group, and the error would be counted
			pending[p] = pipe.XPending(ctx, j.store.JobQueueKey(p), eventlog.JobGroup)
		}
	}
	if len(pending) == 0 {
		return 0, nil
	}
	_ = redisclient.Execute(ctx, pipe)
	total := int64(0)
	for p, held := range pending {
		n := lengths[p].Val()
		// Without the group no job has been taken yet.
		if held, err := held.Result(); err == nil {
			n -= held.Count
		} else if !strings.HasPrefix(err.Error(), "NOGROUP") && !errors.Is(err, redis.Nil) {
			return 0, redisclient.Failed(err, "count running jobs")
		}
		total += max(0, n)
	}
	return total, nil
}
