package backup

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Jobs are saved with their accounts (accounts.go).

const kindJob kind = 26 // account, id, until, state, started, request, outcome

// jobsKept is how long the lists of restored jobs are kept at least.
const jobsKept = 26 * time.Hour

// saveJobs saves jobs of an account. One that has ended after the cut is one that runs.
func saveJobs(ctx context.Context, s *source, account signal.AccountID, ids []string) error {
	p := s.Partition(account)
	for group := range slices.Chunk(ids, accountsAtOnce) {
		var records []*redis.SliceCmd
		var until []*redis.DurationCmd
		pipe := s.RDB.TxPipeline()
		for _, id := range group {
			key := s.JobKey(p, signal.JobID(id))
			records = append(records, pipe.HMGet(ctx, key, codec.JobState, codec.JobStarted, codec.JobRequest, codec.JobOutcome))
			until = append(until, pipe.PExpireTime(ctx, key))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, id := range group {
			v := redisclient.Texts(records[i].Val())
			state, started, request, outcome, expires := v[0], v[1], v[2], v[3], untilMS(until[i])
			if state == "" {
				continue // forgotten since
			}
			if at, _, err := codec.CutStamp([]byte(outcome)); err == nil && s.cuts[p].after(at) {
				_, attempt, _ := strings.Cut(state, " ")
				state, outcome, expires = string(signal.JobRunning)+" "+attempt, "", 0
			}
			if err := s.add(kindJob, account, id, expires, state, started, request, outcome); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadJob stores a job. One that ran is queued again.
func loadJob(ctx context.Context, t *target, f fields) error {
	if f.expired(2, t.now) {
		return nil
	}
	account, id := f.account(0), signal.JobID(f[1])
	state, started, request, outcome := f.text(3), f.text(4), f.text(5), f[6]
	if rest, ran := strings.CutPrefix(state, string(signal.JobRunning)+" "); ran {
		state = string(signal.JobQueued) + " " + rest
	}
	if len(outcome) > 0 {
		var err error
		if outcome, err = t.restamped(outcome, t.from(account), 1); err != nil {
			return err
		}
	}
	j, err := codec.DecodeJob(id, state, started, request, string(outcome))
	if err != nil {
		return err
	}
	p := t.of(account)
	key, all, with := t.JobKey(p, id), t.JobsOfKey(p, account), t.JobsWithKey(p, account, j.Status)
	record := []any{codec.JobState, state, codec.JobRequest, request}
	if started != "" {
		record = append(record, codec.JobStarted, started)
	}
	if len(outcome) > 0 {
		record = append(record, codec.JobOutcome, string(outcome))
	}
	t.pipe.HSet(ctx, key, record...)
	t.expire(ctx, key, f, 2)
	z := redis.Z{Score: float64(j.CreatedAt.UnixMilli()), Member: string(id)}
	t.pipe.ZAdd(ctx, all, z)
	t.pipe.ZAdd(ctx, with, z)
	if j.Status == signal.JobQueued {
		t.pipe.XAdd(ctx, &redis.XAddArgs{Stream: t.JobQueueKey(p), Values: []any{"j", string(id), "a", string(account)}})
		return nil
	}
	ended := t.JobsEndedKey(p, account)
	t.pipe.ZAdd(ctx, ended, redis.Z{Score: float64(j.ExpiresAt.UnixMilli()), Member: string(id)})
	for _, k := range []string{all, with, ended} {
		t.pipe.PExpireAt(ctx, k, t.now.Add(jobsKept))
	}
	return nil
}
