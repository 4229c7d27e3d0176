package eventlog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/position_store.lua
var positionStoreText string

var positionStoreScript = redis.NewScript(positionStoreText)

// The engine reads the event logs of the partitions that its node owns, from a
// position that it stores once the effects of the events before it are stored.
// There is no consumer group: it would let a paused former owner take entries that
// nobody else then sees.

// EnginePosition returns up to where the events of partition p have had their
// effect; zero if no owner has stored a position yet.
func (s *Store) EnginePosition(ctx context.Context, p int) (signal.Position, error) {
	value, err := s.RDB.Get(ctx, redisclient.PositionKey(p)).Result()
	if errors.Is(err, redis.Nil) {
		return signal.Position{}, nil
	}
	if err != nil {
		return signal.Position{}, redisclient.Unavailable(fmt.Errorf("read position of partition %d: %w", p, err))
	}
	position, ok := signal.ParsePosition(value)
	if !ok {
		return signal.Position{}, fmt.Errorf("read position of partition %d: %q is none", p, value)
	}
	return position, nil
}

// StoreEnginePosition stores that the events of partition p up to position have had
// their effect. KindConflict: another epoch holds the partition, or the log ends before
// the position, because Redis has lost its end (CodeRolledBack).
func (s *Store) StoreEnginePosition(ctx context.Context, p int, epoch int64, position signal.Position) error {
	stored, err := positionStoreScript.Run(ctx, s.RDB, []string{redisclient.EpochKey(p), redisclient.PositionKey(p), redisclient.EventsKey(p)},
		strconv.FormatInt(epoch, 10), position.String()).Int()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("store position of partition %d: %w", p, err))
	}
	switch stored {
	case 0:
		return ErrNotOwner
	case -1:
		return signal.ErrRolledBack
	}
	return nil
}
