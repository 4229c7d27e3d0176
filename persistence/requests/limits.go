package requests

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var limitTakeScript = redisclient.Script(scripts, "take")

// TakeTokens returns back tokens to the bucket of a class and an account or address, and then
// takes at most want from it. The bucket holds quota tokens and fills up within one period.
// TakeTokens returns how many it has taken and when the bucket would be full again. It does not
// repeat the script if the reply is lost.
func (s *Store) TakeTokens(
	ctx context.Context, class, who string, quota int, period time.Duration, want, back int,
) (taken int, full time.Duration, err error) {
	keys := []string{s.LimitKey(class, who)}
	reply, err := limitTakeScript.Run(ctx, s.RDB, keys, period.Microseconds(), quota, want, back).Int64Slice()
	if err != nil {
		return 0, 0, redisclient.Failed(err, "take tokens")
	}
	if len(reply) != 2 {
		return 0, 0, errors.New("take tokens: the reply does not have two numbers")
	}
	return int(reply[0]), time.Duration(reply[1]), nil
}
