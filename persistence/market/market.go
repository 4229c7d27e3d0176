// Package market keeps the prices of the service: the lease and the checkpoint of the market's
// feeder, the streams of incoming and outgoing prices, and the records of bars, assets, news and
// weather. A write of the feeder names the epoch of its lease and is refused with CodeNotOwner once
// another node feeds the market.
//
// One read takes at most readMax (2,000) ticks, bars or items of news, so that a reader that catches up
// needs little memory. Rounds of ticks are read whole: the last one may go beyond that, by less than the 1,000
// ticks that the feeder puts into one. A read asks for as many rounds as had readMax ticks in the read before, and
// for two at least.
package market

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store has all that is kept of the market, for who needs several parts.
type Store struct {
	*Lease
	*Feed
	*Streams
	*History
	*Wants
	*Weather
}

// New returns the market that c reads and writes.
func New(c *redisclient.Client) *Store {
	return &Store{&Lease{c}, &Feed{c}, &Streams{s: c}, &History{c}, &Wants{c}, &Weather{c}}
}

// Lease decides which node is the feeder.
type Lease struct{ s *redisclient.Client }

// lease returns the lease of the feeder.
func (m *Lease) lease() eventlog.Lease {
	return eventlog.NewLease(m.s, m.s.FeederKey(), m.s.FeederEpochKey(), "the market")
}

// TakeLease makes node the feeder for ttl and returns the epoch of its lease, or 0 and the
// current feeder if that is another node. A node that is the feeder already gets a new epoch,
// which ends its former lease.
func (m *Lease) TakeLease(ctx context.Context, node string, ttl time.Duration) (epoch int64, feeder string, err error) {
	return m.lease().Take(ctx, node, ttl)
}

// RenewLease extends the lease with epoch. KindConflict: it has ended.
func (m *Lease) RenewLease(ctx context.Context, node string, epoch int64, ttl time.Duration) error {
	return m.lease().Renew(ctx, node, epoch, ttl)
}

// ReleaseLease ends the lease with epoch, unless it has ended already, so that another node need
// not wait for its end.
func (m *Lease) ReleaseLease(ctx context.Context, node string, epoch int64) error {
	return m.lease().Release(ctx, node, epoch)
}

// Feeder returns the node that feeds the market and the epoch of its lease, or "" and 0.
func (m *Lease) Feeder(ctx context.Context) (node string, epoch int64, err error) {
	return m.lease().Holder(ctx)
}

// Weather are the records of points.
type Weather struct{ s *redisclient.Client }

// WeatherRecord returns weather that a node has fetched and saved, or nil.
func (m *Weather) WeatherRecord(ctx context.Context, name string) ([]byte, error) {
	value, err := m.s.RDB.Get(ctx, m.s.WeatherKey(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return value, redisclient.Failed(err, "read weather")
}

// SaveWeatherRecord keeps value for all nodes, for ever if keep is 0.
func (m *Weather) SaveWeatherRecord(ctx context.Context, name string, value []byte, keep time.Duration) error {
	return redisclient.Failed(m.s.RDB.Set(ctx, m.s.WeatherKey(name), value, keep).Err(), "save weather")
}
