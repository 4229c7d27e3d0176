package persistence

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/credentials"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/leaves"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/requests"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// Options are the settings of the connection.
type Options = redisclient.Options

// Store is the connection to Redis and the records that most callers need. The other kinds of
// records are opened from it: market.New(s.Client), deliveries.New(s.Client, log).
type Store struct {
	Client      *redisclient.Client
	Logs        *eventlog.Store
	Credentials *credentials.Store
	Signals     *signals.Store
	Requests    *requests.Store
	Leaves      *leaves.Store
	Eraser      *Eraser
	Gauges      *Gauges
}

// Open prepares the connection. It does not wait for Redis: see Ready. It fails
// if an option is not valid.
func Open(o Options) (*Store, error) {
	c, err := redisclient.NewClient(o)
	if err != nil {
		return nil, err
	}
	logs := eventlog.New(c)
	signals := signals.New(logs)
	s := &Store{
		Client:      c,
		Logs:        logs,
		Credentials: credentials.New(c),
		Signals:     signals,
		Requests:    requests.New(c, signals),
		Leaves:      leaves.New(c),
		Gauges:      &Gauges{client: c, positions: logs.Positions},
	}
	s.Eraser = &Eraser{c, s.Leaves, signals}
	if o.Metrics != nil {
		s.Gauges.streams, s.Gauges.sizes = newStreamMetrics(o.Metrics.Registry), newSizes(o.Metrics.Registry)
	}
	return s, nil
}

// ConfirmRead waits until replicas have what was read of an account's records before the call, except
// of its credentials. KindUnavailable: they are missing, and that is not accepted.
func (s *Store) ConfirmRead(ctx context.Context, account signal.AccountID) error {
	return s.Client.Reads.Confirm(ctx, s.Client.ConfirmKey(s.Client.Partition(account)))
}
