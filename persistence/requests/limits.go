package requests

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/limit_take.lua
var limitTakeText string

var limitTakeScript = redis.NewScript(limitTakeText)

// TakeTokens gives tokens back to the bucket of one class and account or address,
// then takes at most want from it. The bucket holds quota tokens and fills up
// within one period. It returns how many were taken and how long the bucket would
// take to be full again. It is not asked twice if the answer is lost.
func (s *Store) TakeTokens(ctx context.Context, class, who string, quota int, period time.Duration, want, back int) (taken int, full time.Duration, err error) {
	answer, err := limitTakeScript.Run(ctx, s.RDB, []string{redisclient.LimitKey(class, who)}, period.Microseconds(), quota, want, back).Int64Slice()
	if err != nil {
		return 0, 0, redisclient.Unavailable(fmt.Errorf("take tokens: %w", err))
	}
	if len(answer) != 2 {
		return 0, 0, errors.New("take tokens: answer is not of the known form")
	}
	return int(answer[0]), time.Duration(answer[1]), nil
}
