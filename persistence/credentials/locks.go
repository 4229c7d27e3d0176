package credentials

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var lockFailScript = redisclient.Script(scripts, "lock_fail")

// relockWindow is the time within which earlier locks make the next one longer.
const relockWindow = 24 * time.Hour

// LockStore keeps failed logins and locks by the digest of the email, whether an account has it or not. They reveal
// neither which accounts exist nor which addresses were tried.
type LockStore struct{ client }

// LockedUntil returns until when the email is or was locked, or the zero time if it was not
// lately.
func (s *LockStore) LockedUntil(ctx context.Context, email credential.Digest) (time.Time, error) {
	text, err := s.RDB.HGet(ctx, s.LockKey(email.String()), "until").Result()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, redisclient.Failed(err, "read lock")
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("decode lock: field \"until\" is not valid")
	}
	return time.UnixMilli(ms).UTC(), nil
}

// FailLogin counts a failed login of the email. It returns until when the email is locked, or the
// zero time, and whether this failure has locked it. While it is locked nothing is counted.
func (s *LockStore) FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules, now time.Time) (
	until time.Time, locked bool, err error) {
	keys := []string{s.LockKey(email.String())}
	answer, err := lockFailScript.Run(ctx, s.RDB, keys, now.UnixMilli(), r.After, r.Window.Milliseconds(),
		r.Duration.Milliseconds(), relockWindow.Milliseconds()).Int64Slice()
	if err != nil {
		return time.Time{}, false, redisclient.Failed(err, "count failed login")
	}
	if len(answer) != 2 {
		return time.Time{}, false, errors.New("count failed login: answer is not of the known form")
	}
	if answer[0] != 0 {
		until = time.UnixMilli(answer[0]).UTC()
	}
	return until, answer[1] == 1, nil
}

// Unlock forgets locks and failed logins of the email.
func (s *LockStore) Unlock(ctx context.Context, email credential.Digest) error {
	return redisclient.Failed(s.RDB.Del(ctx, s.LockKey(email.String())).Err(), "unlock")
}
