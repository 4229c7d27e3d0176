package persistence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/redis/go-redis/v9"
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
	// jobGroup is the consumer group of all job queues.
	jobGroup = "jobs"
	// goneIdle is how long an entry stays with a node that is not live: it may just
	// be announcing itself.
	goneIdle = time.Second
	// ownLimit bounds how many jobs of its former process a node takes back at once.
	ownLimit = 1000
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
	own      []bool            // of each partition: what the former process held was taken back
	backlog  []signal.Job      // taken, not yet returned
	nextLeft time.Time         // when to search for what other nodes left
}

func newQueueReader(partitions int) queueReader {
	q := queueReader{cursors: make([]signal.Position, partitions), more: make([]bool, partitions), own: make([]bool, partitions)}
	for p := range q.more {
		q.more[p] = true
	}
	return q
}

// Next takes up to limit jobs. They are running then, with their attempt counted,
// until an outcome is appended, or another node takes them: when this one is live
// no more, or after Options.Idle. Where no job waits, Next waits for at most about a
// second. Jobs may come with an error, KindUnavailable: what was taken before it.
func (j *Jobs) Next(ctx context.Context, limit int) ([]signal.Job, error) {
	if err := j.takeBack(ctx); err != nil {
		return nil, err
	}
	jobs, err := j.search(ctx, limit)
	if err != nil || len(jobs) > 0 {
		return jobs, err
	}
	if err := j.wait(ctx); err != nil {
		return nil, err
	}
	return j.search(ctx, limit)
}

// takeBack takes the jobs that this node's former process held.
func (j *Jobs) takeBack(ctx context.Context) error {
	for p := range j.queue.own {
		if j.queue.own[p] {
			continue
		}
		jobs, _, err := j.take(ctx, p, ownLimit, "own")
		j.queue.backlog = append(j.queue.backlog, jobs...)
		if err != nil {
			return err
		}
		j.queue.own[p] = true
	}
	return nil
}

// search takes what can be had without waiting.
func (j *Jobs) search(ctx context.Context, limit int) ([]signal.Job, error) {
	q := &j.queue
	n := min(limit, len(q.backlog))
	jobs := append([]signal.Job(nil), q.backlog[:n]...)
	q.backlog = q.backlog[n:]
	if now := time.Now(); now.After(q.nextLeft) {
		q.nextLeft = now.Add(j.pause)
		for p := range q.more {
			q.more[p] = true // a Redis that lost its data, or its time, wakes nobody
		}
		found, err := j.takeLeft(ctx, limit-len(jobs))
		jobs = append(jobs, found...)
		if err != nil {
			return jobs, err
		}
	}
	start := rand.IntN(len(q.more)) // no partition comes first every time
	for i := range q.more {
		p := (start + i) % len(q.more)
		if !q.more[p] || len(jobs) >= limit {
			continue
		}
		left := limit - len(jobs)
		found, read, err := j.take(ctx, p, left, "new")
		jobs = append(jobs, found...)
		if err != nil {
			return jobs, err
		}
		q.more[p] = read == left
	}
	return jobs, nil
}

// takeLeft takes jobs that other nodes hold no more, or for too long.
func (j *Jobs) takeLeft(ctx context.Context, limit int) ([]signal.Job, error) {
	live, err := j.liveNodes(ctx)
	if err != nil {
		return nil, err
	}
	gone := "-"
	if len(live) > 0 {
		gone = strconv.FormatInt(goneIdle.Milliseconds(), 10)
	}
	args := append([]any{j.idle.Milliseconds(), gone}, live...)
	var jobs []signal.Job
	for p := range j.store.partitions {
		if len(jobs) >= limit {
			break
		}
		found, _, err := j.take(ctx, p, limit-len(jobs), "left", args...)
		jobs = append(jobs, found...)
		if err != nil {
			return jobs, err
		}
	}
	if len(jobs) > 0 {
		j.log.Info("jobs of other processes were taken over", "component", "persistence", "jobs", len(jobs))
	}
	return jobs, nil
}

// liveNodes returns the nodes that are live; none if this one is not among them,
// because then nothing can be said of the others.
func (j *Jobs) liveNodes(ctx context.Context) ([]any, error) {
	now := strconv.FormatInt(j.store.Now().UnixMilli(), 10)
	members, err := j.store.rdb.ZRangeByScore(ctx, nodesKey(), &redis.ZRangeBy{Min: "(" + now, Max: "+inf"}).Result()
	if err != nil {
		return nil, signal.Unavailable(fmt.Errorf("read live nodes: %w", err))
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
func (j *Jobs) take(ctx context.Context, p, limit int, mode string, args ...any) (jobs []signal.Job, read int, err error) {
	if limit <= 0 {
		return nil, 0, nil
	}
	all := append([]any{j.consumer, limit, jobKey(p, ""), jobsOfKey(p, ""), mode}, args...)
	r, err := jobTakeScript.Run(ctx, j.store.rdb, []string{jobQueueKey(p)}, all...).Slice()
	if err != nil {
		return nil, 0, signal.Unavailable(fmt.Errorf("take jobs of partition %d: %w", p, err))
	}
	if len(r) == 0 {
		return nil, 0, errors.New("take jobs: answer is empty")
	}
	met, _ := r[0].(int64)
	for _, item := range r[1:] {
		job, err := decodeTaken(texts(item))
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
	return jobs, int(met), nil
}

// decodeTaken returns a job that the script has taken.
func decodeTaken(f []string) (signal.Job, error) {
	if len(f) != 5 {
		return signal.Job{}, fmt.Errorf("taken job has %d fields", len(f))
	}
	job, err := decodeJob(signal.JobID(f[1]), string(signal.JobRunning)+" "+f[2], f[3], f[4], "")
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
func (j *Jobs) wait(ctx context.Context) error {
	block := blockTimeout
	if left := time.Until(j.queue.nextLeft); left < block {
		block = max(left, time.Millisecond)
	}
	if _, cluster := j.store.rdb.(*redis.ClusterClient); cluster {
		return j.poll(ctx, block)
	}
	streams := make([]string, 2*j.store.partitions)
	for p := range j.store.partitions {
		streams[p], streams[j.store.partitions+p] = jobQueueKey(p), j.queue.cursors[p].String()
	}
	found, err := j.store.blocking.XRead(ctx, &redis.XReadArgs{Streams: streams, Count: wakeCount, Block: block}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return signal.Unavailable(fmt.Errorf("wait for jobs: %w", err))
	}
	for _, s := range found {
		for p := range j.store.partitions {
			if s.Stream == streams[p] {
				j.seen(p, s.Messages)
			}
		}
	}
	return nil
}

// poll is wait for a cluster.
func (j *Jobs) poll(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		pipe := j.store.rdb.Pipeline()
		reads := make([]*redis.XStreamSliceCmd, j.store.partitions)
		for p := range reads {
			reads[p] = pipe.XRead(ctx, &redis.XReadArgs{Streams: []string{jobQueueKey(p), j.queue.cursors[p].String()}, Count: wakeCount, Block: -1})
		}
		pipe.Exec(ctx) // each command has its own error
		any := false
		for p, r := range reads {
			found, err := r.Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return signal.Unavailable(fmt.Errorf("look for jobs: %w", err))
			}
			for _, s := range found {
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
func (j *Jobs) seen(p int, entries []redis.XMessage) {
	j.queue.more[p] = true
	if n := len(entries); n > 0 {
		if at, ok := signal.ParsePosition(entries[n-1].ID); ok && at.Compare(j.queue.cursors[p]) > 0 {
			j.queue.cursors[p] = at
		}
	}
}

// Waiting returns the number of queued jobs of the installation.
func (j *Jobs) Waiting(ctx context.Context) (int64, error) {
	pipe := j.store.rdb.Pipeline()
	lengths, pending := make([]*redis.IntCmd, j.store.partitions), make([]*redis.XPendingCmd, j.store.partitions)
	for p := range lengths {
		lengths[p] = pipe.XLen(ctx, jobQueueKey(p))
		pending[p] = pipe.XPending(ctx, jobQueueKey(p), jobGroup)
	}
	pipe.Exec(ctx) // each command has its own error
	total := int64(0)
	for p := range lengths {
		n, err := lengths[p].Result()
		if err != nil {
			return 0, signal.Unavailable(fmt.Errorf("count waiting jobs: %w", err))
		}
		// Without the group nobody has taken anything yet.
		if held, err := pending[p].Result(); err == nil {
			n -= held.Count
		} else if !strings.HasPrefix(err.Error(), "NOGROUP") && !errors.Is(err, redis.Nil) {
			return 0, signal.Unavailable(fmt.Errorf("count jobs at work: %w", err))
		}
		total += max(0, n)
	}
	return total, nil
}
