package credentials

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// A credential change and the event that announces it are in different slots, so one script
// cannot make both. The script of the change puts the event into the outbox instead. The process
// that made the change appends the event to its log at once and then settles it; the events of a
// process that has ended are appended by another. See ended.go for why nodes do not read the
// outbox.

// Outbox keeps the events of credential changes until they are in their logs.
type Outbox struct{ client }

// settledAtOnce is how many events one command removes.
const settledAtOnce = 1000

// Settle removes events that were appended to their logs from the outbox.
func (s *Outbox) Settle(ctx context.Context, events []signal.Event) error {
	for some := range slices.Chunk(events, settledAtOnce) {
		members := make([]any, len(some))
		for i, e := range some {
			members[i] = encodeAnnouncement(e)
		}
		if err := s.RDB.ZRem(ctx, s.OutboxKey(), members...).Err(); err != nil {
			return redisclient.Failed(err, "settle announcements")
		}
	}
	return nil
}

// Unsettled returns at most limit events, oldest first, that were put into the outbox until the
// given time. An entry that cannot be read is logged and postponed.
func (s *Outbox) Unsettled(ctx context.Context, before time.Time, limit int) ([]signal.Event, error) {
	members, err := s.RDB.ZRangeByScore(ctx, s.OutboxKey(), &redis.ZRangeBy{
		Min: "-inf", Max: strconv.FormatInt(before.UnixMilli(), 10), Count: int64(limit)}).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read outbox")
	}
	var events []signal.Event
	for _, m := range members {
		e, err := decodeAnnouncement(m)
		if err != nil {
			s.Log.Error("an announcement is not readable", "component", "persistence", "err", err)
			if err := s.Postpone(ctx, s.OutboxKey(), before, m); err != nil {
				return nil, err
			}
			continue
		}
		events = append(events, e)
	}
	return events, nil
}
