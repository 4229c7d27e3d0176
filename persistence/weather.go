package persistence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// WeatherRecord returns weather that a node has fetched from far away, as it was
// saved; nil if there is none.
func (s *Store) WeatherRecord(ctx context.Context, name string) ([]byte, error) {
	value, err := s.rdb.Get(ctx, weatherKey(name)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, unavailable(fmt.Errorf("read weather: %w", err))
	}
	return value, nil
}

// SaveWeatherRecord keeps value for all nodes: for a time, or for good if that is 0.
func (s *Store) SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error {
	if err := s.rdb.Set(ctx, weatherKey(name), value, keep).Err(); err != nil {
		return unavailable(fmt.Errorf("save weather: %w", err))
	}
	return nil
}
