// Package jobs keeps jobs and hands out the waiting ones: each to one node at a time, and to
// another one if that node is no longer live. Package eventlog stores the outcome of a job with
// the change that the job makes, and refuses it from a node that no longer holds the job.
package jobs

import (
	"cmp"
	"context"
	"embed"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// A job is a hash under its own key. Each account has sorted sets of the ids of its jobs: all by
// creation, those of each status by creation, and the ended ones by when they are forgotten.
// Waiting jobs are in one stream per partition, from which the nodes take them as one consumer
// group: see queue.go.

//go:embed scripts
var scripts embed.FS

var (
	enqueueScript = redisclient.Script(scripts, "enqueue")
	pruneScript   = redisclient.Script(scripts, "prune")
	takeScript    = redisclient.Script(scripts, "take")
	startScript   = redisclient.Script(scripts, "start")
)

const (
	// pruneBatch is how many forgotten jobs one script removes: about a millisecond.
	pruneBatch = 1000
	// enqueueTries is how often Enqueue runs its script, which stores a job once.
	enqueueTries = 2
)

// Store keeps jobs and hands out the waiting ones. Its methods are safe for concurrent use,
// except that only one goroutine at a time may call Next.
type Store struct {
	store     *redisclient.Client
	reclaimed func(n int)
	consumer  string
	idle      time.Duration
	pause     time.Duration // between two searches for abandoned jobs
	log       *slog.Logger
	queue     queueReader

	mu   sync.Mutex
	held []map[signal.Position]struct{} // by partition: the entries that this process works on
}

// Options are the options of Jobs.
type Options struct {
	// Idle is how long a live node may hold a job before another one takes it; default 45 s.
	// It must exceed the time limit of runs.
	Idle time.Duration
	// Search is the pause between two searches for abandoned jobs; default 5 s.
	Search time.Duration
	// Reclaimed counts jobs that another worker had before. It may be nil.
	Reclaimed func(n int)
	Log       *slog.Logger // nil: the client's
}

// New returns the jobs of s. node is the id under which this process takes jobs, which no other
// process may use at the same time.
func New(s *redisclient.Client, node string, o Options) *Store {
	j := &Store{
		store:     s,
		reclaimed: o.Reclaimed,
		consumer:  node,
		idle:      cmp.Or(o.Idle, 45*time.Second),
		pause:     cmp.Or(o.Search, 5*time.Second),
		log:       cmp.Or(o.Log, s.Log),
	}
	if j.reclaimed == nil {
		j.reclaimed = func(int) {}
	}
	j.queue = newQueueReader(s.Partitions())
	for range s.Partitions() {
		j.held = append(j.held, make(map[signal.Position]struct{}))
	}
	return j
}

// Enqueue stores a queued job, with the reply unless that is nil. KindTooMany, "too_many_runs":
// maxQueued jobs of the account are queued. KindUnavailable: the job may be stored or not.
func (j *Store) Enqueue(ctx context.Context, job signal.Job, maxQueued int, reply *signal.Reply) error {
	account := job.Request.Account
	p := j.store.Partition(account)
	with := func(status signal.JobStatus) string { return j.store.JobsWithKey(p, account, status) }
	keys := []string{
		j.store.JobKey(p, job.ID), j.store.JobsOfKey(p, account), with(signal.JobQueued),
		j.store.JobsEndedKey(p, account), j.store.JobQueueKey(p), with(signal.JobCompleted),
		with(signal.JobFailed),
	}
	args := []any{
		string(job.ID), string(account), job.CreatedAt.UnixMilli(), maxQueued,
		codec.AppendJobRequest(nil, &job), j.store.Now().UnixMilli(),
	}
	if reply != nil {
		keys = append(keys, j.store.ReplyKey(p, account, codec.ReplyDigest(&reply.ReplyKey)))
		args = append(args, codec.AppendReply(nil, reply), eventlog.ReplyRetention.Milliseconds(),
			codec.AppendReplyLock(nil, &reply.ReplyKey))
	}
	var stored *redis.Cmd
	var err error
	for range enqueueTries {
		stored, err = j.store.Durable.Change(ctx, j.store.ConfirmKey(p), enqueueScript, keys, args...)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case err != nil:
		return redisclient.Failed(err, "enqueue job")
	case stored.Val() == int64(0):
		return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", RetryAfter: time.Second,
			Message: "too many jobs are queued: wait until some have ended"}
	case stored.Val() == int64(2):
		return eventlog.ErrClaimLost
	}
	return nil
}

// Job returns a job of the account. KindNotFound: there is no such job, or it is forgotten.
func (j *Store) Job(ctx context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error) {
	p := j.store.Partition(account)
	r, err := j.store.RDB.HMGet(ctx, j.store.JobKey(p, id), jobFields...).Result()
	if err != nil {
		return signal.Job{}, redisclient.Failed(err, "read job")
	}
	job, found, err := decodeFields(id, r)
	if err != nil {
		return signal.Job{}, err
	}
	if !found || job.Request.Account != account || forgotten(&job, j.store.Now()) {
		return signal.Job{}, signal.NotFound("job")
	}
	return job, nil
}

// jobFields are the fields of a job's record.
var jobFields = []string{codec.JobState, codec.JobStarted, codec.JobRequest, codec.JobOutcome}

// decodeFields returns the job with the values of jobFields. found is false without a record.
func decodeFields(id signal.JobID, values []any) (job signal.Job, found bool, err error) {
	text := make([]string, len(jobFields))
	for i, v := range values {
		text[i], _ = v.(string)
	}
	if text[0] == "" {
		return signal.Job{}, false, nil
	}
	job, err = codec.DecodeJob(id, text[0], text[1], text[2], text[3])
	return job, err == nil, err
}

// forgotten reports whether the job has expired. Redis may not have dropped it yet.
func forgotten(j *signal.Job, now time.Time) bool {
	return !j.ExpiresAt.IsZero() && !now.Before(j.ExpiresAt)
}

// Jobs returns limit jobs of the account after the first offset ones, newest first, and how
// many there are. A status of "" means any.
func (j *Store) Jobs(
	ctx context.Context, account signal.AccountID, status signal.JobStatus, limit, offset int,
) ([]signal.Job, int, error) {
	p := j.store.Partition(account)
	if err := j.prune(ctx, p, account); err != nil {
		return nil, 0, err
	}
	index := j.store.JobsOfKey(p, account)
	if status != "" {
		index = j.store.JobsWithKey(p, account, status)
	}
	pipe := j.store.RDB.Pipeline()
	total := pipe.ZCard(ctx, index)
	ids := pipe.ZRevRange(ctx, index, int64(offset), int64(offset)+int64(limit)-1)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, redisclient.Failed(err, "list jobs")
	}
	records := make([]*redis.SliceCmd, len(ids.Val()))
	pipe = j.store.RDB.Pipeline()
	for i, id := range ids.Val() {
		records[i] = pipe.HMGet(ctx, j.store.JobKey(p, signal.JobID(id)), jobFields...)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, 0, redisclient.Failed(err, "read jobs")
	}
	jobs := make([]signal.Job, 0, len(records))
	for i, record := range records {
		job, found, err := decodeFields(signal.JobID(ids.Val()[i]), record.Val())
		if err != nil {
			return nil, 0, err
		}
		// One has expired since, or has another status by now.
		if found && (status == "" || job.Status == status) {
			jobs = append(jobs, job)
		}
	}
	return jobs, int(total.Val()), nil
}

// prune removes the account's forgotten jobs from its indexes.
func (j *Store) prune(ctx context.Context, p int, account signal.AccountID) error {
	keys := []string{j.store.JobsEndedKey(p, account), j.store.JobsOfKey(p, account),
		j.store.JobsWithKey(p, account, signal.JobCompleted), j.store.JobsWithKey(p, account, signal.JobFailed)}
	now := j.store.Now().UnixMilli()
	for {
		n, err := pruneScript.Run(ctx, j.store.RDB, keys, now, pruneBatch).Int()
		if err != nil {
			return redisclient.Failed(err, "prune jobs")
		}
		if n < pruneBatch {
			return nil
		}
	}
}

// Erase erases a chunk of the jobs of a deleted account and returns "" at the end. The entries
// of these jobs in the queue are dropped by the nodes that take them.
func Erase(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID) (string, error) {
	indexes := []string{c.JobsOfKey(p, account), c.JobsEndedKey(p, account)}
	for _, s := range []signal.JobStatus{signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed} {
		indexes = append(indexes, c.JobsWithKey(p, account, s))
	}
	ids, err := c.RDB.ZRange(ctx, indexes[0], 0, redisclient.EraseChunk-1).Result()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", c.RDB.Del(ctx, indexes...).Err()
	}
	keys, members := make([]string, len(ids)), make([]any, len(ids))
	for i, id := range ids {
		keys[i], members[i] = c.JobKey(p, signal.JobID(id)), id
	}
	// The records first, since only the index names them.
	if err := c.RDB.Unlink(ctx, keys...).Err(); err != nil {
		return "", err
	}
	return "more", c.RDB.ZRem(ctx, indexes[0], members...).Err()
}
