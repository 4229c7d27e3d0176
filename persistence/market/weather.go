package market

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// WeatherRecord returns weather that a node has fetched and saved, or nil.
func (m *Store) WeatherRecord(ctx context.Context, name string) ([]byte, error) {
	value, err := m.s.RDB.Get(ctx, m.s.WeatherKey(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return value, redisclient.Failed(err, "read weather")
}

// SaveWeatherRecord keeps value for all nodes, for ever if keep is 0.
func (m *Store) SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error {
	return redisclient.Failed(m.s.RDB.Set(ctx, m.s.WeatherKey(name), value, keep).Err(), "save weather")
}
