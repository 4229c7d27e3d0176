package persistence

import (
	"github.com/agentsignal/agentsignal/persistence/credentials"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/leaves"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/requests"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// Options are the settings of the connection.
type Options = redisclient.Options

// Names of their own for the parts of a Store: each is the Store of its package.
type (
	credentialPart = credentials.Store
	signalPart     = signals.Store
	requestPart    = requests.Store
	leafPart       = leaves.Store
)

// Store is the connection to Redis and the records that most callers need. The other kinds of
// records are opened from it: market.New(s.Client), deliveries.New(s.Store, log).
type Store struct {
	*redisclient.Client
	*eventlog.Store
	*credentialPart
	*signalPart
	*requestPart
	*leafPart
	streams *streamMetrics // nil without Options.Metrics
	sizes   *sizes
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
		Client:         c,
		Store:          logs,
		credentialPart: credentials.New(c),
		signalPart:     signals,
		requestPart:    requests.New(c, signals),
		leafPart:       leaves.New(c),
	}
	if o.Metrics != nil {
		s.streams, s.sizes = newStreamMetrics(o.Metrics.Registry), newSizes(o.Metrics.Registry)
	}
	return s, nil
}
