package eventlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var positionStoreScript = redisclient.Script(scripts, "position_store")

// The owner of a partition reads its event log from a position, which it stores once the effects
// of the events before it are stored. There is no consumer group: a paused former owner could
// take entries from it that no other node would see.

// Positions are up to where the events of each partition have had their effect.
type Positions struct{ client *redisclient.Client }

// OwnerPosition returns the position up to which the events of partition p have had their
// effect, or zero before an owner has stored one.
func (s *Positions) OwnerPosition(ctx context.Context, p int) (signal.Position, error) {
	value, err := s.client.RDB.Get(ctx, s.client.PositionKey(p)).Result()
	if errors.Is(err, redis.Nil) {
		return signal.Position{}, nil
	}
	if err != nil {
		return signal.Position{}, redisclient.Failed(err, "read position of partition %d", p)
	}
	position, ok := signal.ParsePosition(value)
	if !ok {
		return signal.Position{}, fmt.Errorf("read position of partition %d: %q is not valid", p, value)
	}
	return position, nil
}

// Lag returns the position of OwnerPosition and the age of the oldest event behind it, or 0
// without one.
func (s *Positions) Lag(ctx context.Context, p int) (position signal.Position, lag time.Duration, err error) {
	position, err = s.OwnerPosition(ctx, p)
	if err != nil {
		return position, 0, err
	}
	next, err := s.client.ReadRange(ctx, s.client.EventsKey(p), "("+position.String(), "+", 1)
	if err != nil {
		return position, 0, redisclient.Unavailable(err)
	}
	if len(next) > 0 {
		lag = max(0, s.client.Now().Sub(next[0].Position.Time()))
	}
	return position, lag, nil
}

// StoreOwnerPosition stores that the events of partition p up to position have had
// their effect. KindConflict: another epoch holds the partition, or the log ends before
// the position because Redis has lost its newest entries (CodeRolledBack).
func (s *Positions) StoreOwnerPosition(ctx context.Context, p int, epoch int64, position signal.Position) error {
	stored, err := positionStoreScript.Run(ctx, s.client.RDB, positionKeys(s.client.Keys, p),
		strconv.FormatInt(epoch, 10), position.String()).Int()
	switch {
	case err != nil:
		return redisclient.Failed(err, "store position of partition %d", p)
	case stored == 0:
		return ErrNotOwner
	case stored < 0:
		return signal.ErrRolledBack
	}
	return nil
}

// ContinuedLogs returns the partitions whose event logs have entries after the given positions, in one
// round trip to each server.
func (s *Positions) ContinuedLogs(ctx context.Context, after map[int]signal.Position) ([]int, error) {
	partitions := slices.Sorted(maps.Keys(after))
	pipe, byKey := s.client.RDB.Pipeline(), map[string]int{}
	var reads []*redis.XStreamSliceCmd
	for group := range together(s.client.RDB, partitions) {
		var keys, positions []string
		for _, p := range group {
			keys, positions = append(keys, s.client.EventsKey(p)), append(positions, after[p].String())
			byKey[s.client.EventsKey(p)] = p
		}
		args := &redis.XReadArgs{Streams: append(keys, positions...), Count: 1, Block: -1}
		reads = append(reads, pipe.XRead(ctx, args))
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "look at event logs")
	}
	var found []int
	for _, r := range reads {
		for _, stream := range r.Val() {
			found = append(found, byKey[stream.Stream])
		}
	}
	return found, nil
}

// positionKeys returns the keys of positionStoreScript.
func positionKeys(k redisclient.Keys, p int) []string {
	return []string{k.EpochKey(p), k.PositionKey(p), k.EventsKey(p)}
}
