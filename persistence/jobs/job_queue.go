package jobs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Taking a job is one script: it reads the queue as the node's consumer of the group
// and marks the job as running, so that no job is taken that nobody knows of. The
// group keeps who holds what, and since when. A blocking read of the group would
// take COUNT entries of every partition, more than there are free workers, and leave
// them to wait here while other nodes are idle; so the wait is a plain read of all
// queues, which takes nothing, and only says where to look.

//go:embed scripts/job_take.lua
var jobTakeText string

var jobTakeScript = redis.NewScript(jobTakeText)

const (
	// goneIdle is how long an entry stays with a node that is not live: it may just
	// be announcing itself.
	goneIdle = time.Second
	// clusterPoll is the pause between looks at the queues of a cluster, where they
	// lie in different slots and cannot be waited for by one command.
	clusterPoll = 200 * time.Millisecond
	// wakeCount is how many entries a wait looks over in a queue.
	wakeCount = 100
)

// queueReader is what Next knows of the queues. One goroutine at a time uses it.
type queueReader struct {
	cursors  []signal.Position // of each partition: entries up to here have been seen
	more     []bool            // of each partition: there may be something to take
	nextLeft time.Time         // when to search for what was left
}

func newQueueReader(partitions int) queueReader {
	q := queueReader{cursors: make([]signal.Position, partitions), more: make([]bool, partitions)}
	for p := range q.more {
		q.more[p] = true
	}
	return q
}

// Next takes up to limit jobs. They are running then, with their attempt counted,
// until an outcome is appended. Call Done when that is over, however it ended.
//
// Another node takes a job over when this one is live no more, or after
// Options.Idle; this one takes back what it is done with, or never heard of because
// an answer of Redis was lost. Where no job waits, Next waits for at most about a
// second. Jobs may come with an error, KindUnavailable: what was taken before it.
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

// Done says that this process works on job no more. If no outcome was stored, the
// job is taken again.
func (j *Store) Done(job signal.Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held[j.store.Partition(job.Request.Account)], job.Entry)
}

// hold notes that this process works on jobs of partition p.
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

// heldIn returns the entries of partition p that this process works on, after their
// number.
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

// search takes what can be had without waiting.
func (j *Store) search(ctx context.Context, limit int) (jobs []signal.Job, err error) {
	q := &j.queue
	defer func() {
		if err != nil {
			q.nextLeft = time.Time{} // something may have been taken
		}
	}()
	if now := time.Now(); now.After(q.nextLeft) {
		for p := range q.more {
			q.more[p] = true // a Redis that lost its data, or its time, wakes nobody
		}
		if jobs, err = j.takeLeft(ctx, limit); err != nil {
			return jobs, err
		}
		if len(jobs) < limit {
			q.nextLeft = now.Add(j.pause)
		}
	}
	start := rand.IntN(len(q.more)) // no partition comes first every time
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

// takeLeft takes jobs that no process is at, or one for too long.
func (j *Store) takeLeft(ctx context.Context, limit int) ([]signal.Job, error) {
	live, err := j.liveNodes(ctx)
	if err != nil {
		return nil, err
	}
	gone := "-"
	if len(live) > 0 {
		gone = strconv.FormatInt(goneIdle.Milliseconds(), 10)
	}
	var jobs []signal.Job
	for p := range j.store.Partitions() {
		if len(jobs) >= limit {
			break
		}
		args := slices.Concat([]any{j.idle.Milliseconds(), gone}, j.heldIn(p), live)
		found, _, err := j.take(ctx, p, limit-len(jobs), "left", args...)
		jobs = append(jobs, found...)
		if err != nil {
			return jobs, err
		}
	}
	if len(jobs) > 0 {
		j.log.Info("jobs that were left behind were taken", "component", "persistence", "jobs", len(jobs))
	}
	return jobs, nil
}

// liveNodes returns the nodes that are live; none if this one is not among them,
// because then nothing can be said of the others.
func (j *Store) liveNodes(ctx context.Context) ([]any, error) {
	now := strconv.FormatInt(j.store.Now().UnixMilli(), 10)
	members, err := j.store.RDB.ZRangeByScore(ctx, redisclient.NodesKey(), &redis.ZRangeBy{Min: "(" + now, Max: "+inf"}).Result()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("read live nodes: %w", err))
	}
	var live []any
	among := false
	for _, m := range members {
		node, _, _ := strings.Cut(m, " ")
		live = append(live, node)
		among = among || node == j.consumer
	}
	if !among {
		return nil, nil
	}
	return live, nil
}

// take runs the script on partition p. read is how many entries it has met.
func (j *Store) take(ctx context.Context, p, limit int, mode string, args ...any) (jobs []signal.Job, read int, err error) {
	if limit <= 0 {
		return nil, 0, nil
	}
	all := append([]any{j.consumer, limit, redisclient.JobKey(p, ""), redisclient.JobsOfKey(p, ""), mode}, args...)
	r, err := jobTakeScript.Run(ctx, j.store.RDB, []string{redisclient.JobQueueKey(p)}, all...).Slice()
	if err != nil {
		return nil, 0, redisclient.Unavailable(fmt.Errorf("take jobs of partition %d: %w", p, err))
	}
	if len(r) == 0 {
		return nil, 0, errors.New("take jobs: answer is empty")
	}
	met, _ := r[0].(int64)
	for _, item := range r[1:] {
		job, err := decodeTaken(redisclient.Texts(item))
		if err != nil {
			// It stays in the queue and is offered again: another version may read it.
			j.log.Error("a job is not readable", "component", "persistence", "partition", p, "err", err)
			continue
		}
		if mode == "new" && job.Entry.Compare(j.queue.cursors[p]) > 0 {
			j.queue.cursors[p] = job.Entry
		}
		jobs = append(jobs, job)
	}
	j.hold(p, jobs)
	return jobs, int(met), nil
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
		return signal.Job{}, fmt.Errorf("entry %q of job %s is no position", f[0], job.ID)
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
		return j.Poll(ctx, block)
	}
	streams := make([]string, 2*j.store.Partitions())
	for p := range j.store.Partitions() {
		streams[p], streams[j.store.Partitions()+p] = redisclient.JobQueueKey(p), j.queue.cursors[p].String()
	}
	found, err := j.store.Blocking.XRead(ctx, &redis.XReadArgs{Streams: streams, Count: wakeCount, Block: block}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return redisclient.Unavailable(fmt.Errorf("wait for jobs: %w", err))
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

// Poll is wait for a cluster.
func (j *Store) Poll(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		pipe := j.store.RDB.Pipeline()
		reads := make([]*redis.XStreamSliceCmd, j.store.Partitions())
		for p := range reads {
			reads[p] = pipe.XRead(ctx, &redis.XReadArgs{Streams: []string{redisclient.JobQueueKey(p), j.queue.cursors[p].String()}, Count: wakeCount, Block: -1})
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return redisclient.Unavailable(fmt.Errorf("look for jobs: %w", err))
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(clusterPoll):
		}
	}
}

// seen notes entries that a wait has met in partition p.
func (j *Store) seen(p int, entries []redis.XMessage) {
	j.queue.more[p] = true
	if n := len(entries); n > 0 {
		if at, ok := signal.ParsePosition(entries[n-1].ID); ok && at.Compare(j.queue.cursors[p]) > 0 {
			j.queue.cursors[p] = at
		}
	}
}

// Waiting returns the number of queued jobs of the installation.
func (j *Store) Waiting(ctx context.Context) (int64, error) {
	pipe := j.store.RDB.Pipeline()
	lengths, pending := make([]*redis.IntCmd, j.store.Partitions()), make([]*redis.XPendingCmd, j.store.Partitions())
	for p := range lengths {
		lengths[p] = pipe.XLen(ctx, redisclient.JobQueueKey(p))
		pending[p] = pipe.XPending(ctx, redisclient.JobQueueKey(p), eventlog.JobGroup)
	}
	_ = redisclient.Execute(ctx, pipe) // each command has its own error
	total := int64(0)
	for p := range lengths {
		n, err := lengths[p].Result()
		if err != nil {
			return 0, redisclient.Unavailable(fmt.Errorf("count waiting jobs: %w", err))
		}
		// Without the group nobody has taken anything yet.
		if held, err := pending[p].Result(); err == nil {
			n -= held.Count
		} else if !strings.HasPrefix(err.Error(), "NOGROUP") && !errors.Is(err, redis.Nil) {
			return 0, redisclient.Unavailable(fmt.Errorf("count jobs at work: %w", err))
		}
		total += max(0, n)
	}
	return total, nil
}
