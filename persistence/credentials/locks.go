package credentials

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal/credential"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/lock_fail.lua
var lockFailText string

var lockFailScript = redis.NewScript(lockFailText)

// relockWindow is the time within which earlier locks make the next one longer.
const relockWindow = 24 * time.Hour

// Locks are kept by the digest of the email, whether an account has it or not: so
// they tell nothing of which accounts exist, and no list of addresses tried.

// LockedUntil returns until when the email is or was locked; the zero time if it
// was not lately.
func (s *Store) LockedUntil(ctx context.Context, email credential.Digest) (time.Time, error) {
	text, err := s.RDB.HGet(ctx, redisclient.LockKey(email.String()), "until").Result()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, credentialError("read lock", err)
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("decode lock: field \"until\" is not valid")
	}
	return time.UnixMilli(ms).UTC(), nil
}

// FailLogin counts a failed login of the email. It returns until when the email
// is locked, the zero time if it is not, and whether it was this failure that
// locked it. While it is locked nothing is counted.
func (s *Store) FailLogin(ctx context.Context, email credential.Digest, r credential.LockRules, now time.Time) (until time.Time, locked bool, err error) {
	answer, err := lockFailScript.Run(ctx, s.RDB, []string{redisclient.LockKey(email.String())},
		now.UnixMilli(), r.After, r.Window.Milliseconds(), r.Duration.Milliseconds(), relockWindow.Milliseconds()).Int64Slice()
	if err != nil {
		return time.Time{}, false, credentialError("count failed login", err)
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
func (s *Store) Unlock(ctx context.Context, email credential.Digest) error {
	if err := s.RDB.Del(ctx, redisclient.LockKey(email.String())).Err(); err != nil {
		return credentialError("unlock", err)
	}
	return nil
}
