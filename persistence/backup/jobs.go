package backup

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveJobs saves jobs of an account. One that has ended after the cut is one that runs.
func (s *saver) saveJobs(ctx context.Context, account signal.AccountID, ids []string) error {
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
			var v [4]string
			for f := range v {
				v[f], _ = records[i].Val()[f].(string)
			}
			if v[0] == "" {
				continue // forgotten since
			}
			expires := untilText(until[i])
			if at, _, err := codec.CutStamp([]byte(v[3])); err == nil && s.cuts[p].after(at) {
				_, attempt, _ := strings.Cut(v[0], " ")
				v[0], v[3], expires = string(signal.JobRunning)+" "+attempt, "", "0"
			}
			if err := s.add(kindJob, texts(string(account), id, expires, v[0], v[1], v[2], v[3])...); err != nil {
				return err
			}
		}
	}
	return nil
}

// isReply reports whether a key has the former name of the reply to a request, or of its lock.
func isReply(former string) bool {
	tag, name, _ := strings.Cut(former, ":")
	return strings.HasPrefix(tag, "{p") && strings.HasPrefix(name, "reply:")
}

// addReply adds the reply to a request whose change is in the backup.
func (s *saver) addReply(former, until, value string) error {
	parts := strings.SplitN(former, ":", 4) // tag, "reply", account, digest
	at, _, err := codec.CutStamp([]byte(value))
	if len(parts) < 4 || err != nil || s.cuts[s.Partition(signal.AccountID(parts[2]))].after(at) {
		return nil // the lock of a request under way, or a later change
	}
	return s.add(kindReply, texts(parts[2], parts[3], until, value)...)
}

// job stores a job. One that ran is queued again.
func (l *loader) job(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	account, id := signal.AccountID(f[0]), signal.JobID(f[1])
	state, started, request, outcome := string(f[3]), string(f[4]), string(f[5]), f[6]
	if rest, ran := strings.CutPrefix(state, string(signal.JobRunning)+" "); ran {
		state = string(signal.JobQueued) + " " + rest
	}
	if len(outcome) > 0 {
		var err error
		if outcome, err = l.restamped(outcome, l.from(account), 1); err != nil {
			return err
		}
	}
	j, err := codec.DecodeJob(id, state, started, request, string(outcome))
	if err != nil {
		return err
	}
	p := l.of(account)
	key, all, with := l.JobKey(p, id), l.JobsOfKey(p, account), l.JobsWithKey(p, account, j.Status)
	fields := []any{codec.JobState, state, codec.JobRequest, request}
	if started != "" {
		fields = append(fields, codec.JobStarted, started)
	}
	if len(outcome) > 0 {
		fields = append(fields, codec.JobOutcome, string(outcome))
	}
	l.pipe.HSet(ctx, key, fields...)
	l.expire(ctx, key, f[2])
	z := redis.Z{Score: float64(j.CreatedAt.UnixMilli()), Member: string(id)}
	l.pipe.ZAdd(ctx, all, z)
	l.pipe.ZAdd(ctx, with, z)
	if j.Status == signal.JobQueued {
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.JobQueueKey(p), Values: []any{"j", string(id), "a", string(account)}})
		return nil
	}
	ended := l.JobsEndedKey(p, account)
	l.pipe.ZAdd(ctx, ended, redis.Z{Score: float64(j.ExpiresAt.UnixMilli()), Member: string(id)})
	for _, k := range []string{all, with, ended} {
		l.pipe.PExpireAt(ctx, k, l.now.Add(jobsKept))
	}
	return nil
}

func (l *loader) reply(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	account := signal.AccountID(f[0])
	value, err := l.restamped(f[3], l.from(account), 1)
	if err != nil {
		return err
	}
	key := l.ReplyKey(l.of(account), account, string(f[1]))
	l.pipe.Set(ctx, key, string(value), 0)
	l.expire(ctx, key, f[2])
	return nil
}
