package persistence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// WeatherRecord returns weather that a node has fetched and saved, or nil.
func (s *Store) WeatherRecord(ctx context.Context, name string) ([]byte, error) {
	value, err := s.RDB.Get(ctx, redisclient.WeatherKey(name)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, redisclient.Unavailable(fmt.Errorf("read weather: %w", err))
	}
	return value, nil
}

// SaveWeatherRecord keeps value for all nodes, for ever if keep is 0.
func (s *Store) SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error {
	if err := s.RDB.Set(ctx, redisclient.WeatherKey(name), value, keep).Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("save weather: %w", err))
	}
	return nil
}
