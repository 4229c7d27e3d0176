package persistence

import (
	"github.com/agentsignal/agentsignal/persistence/credentials"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/market"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/requests"
	"github.com/agentsignal/agentsignal/persistence/schedules"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// Options says which Redis to use and how.
type Options = redisclient.Options

// The parts of a Store by names of their own, since each is the Store of its package.
type (
	credentialPart = credentials.Store
	signalPart     = signals.Store
	requestPart    = requests.Store
)

// What callers hold of the records, without the packages that keep them.
type (
	Market      = market.Store
	Webhooks    = deliveries.Store
	Schedules   = schedules.Store
	Jobs        = jobs.Store
	JobsOptions = jobs.Options
)

// Store is the connection to Redis and all records of this package.
type Store struct {
	*redisclient.Client
	*eventlog.Store
	*credentialPart
	*signalPart
	*requestPart
	streams *streamMetrics // nil: not measured
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
	}
	if o.Metrics != nil {
		s.streams, s.sizes = newStreamMetrics(o.Metrics.Registry), newSizes(o.Metrics.Registry)
	}
	return s, nil
}

// NewLog starts the writers of a log. Close ends them.
func NewLog(s *Store, o eventlog.LogOptions) *eventlog.Log { return eventlog.NewLog(s.Store, o) }

// NewTail returns a tail of s. Subscribe, then Run.
func NewTail(s *Store, o eventlog.TailOptions) *eventlog.Tail { return eventlog.NewTail(s.Store, o) }

// NewTrimmer returns a trimmer of the logs of s.
func NewTrimmer(s *Store, o eventlog.TrimOptions) *eventlog.Trimmer {
	return eventlog.NewTrimmer(s.Store, o)
}

// NewJobs returns the jobs of s. node is the node's id, under which it takes jobs:
// no two processes may use the same at once.
func NewJobs(s *Store, node string, o JobsOptions) *Jobs {
	o.Reclaimed = s.countReclaimed
	return jobs.New(s.Client, node, o)
}

// NewSchedules returns the schedules of s.
func NewSchedules(s *Store, l *eventlog.Log) *Schedules { return schedules.New(s.Client, l) }

// NewWebhooks returns the webhooks of s and their deliveries.
func NewWebhooks(s *Store, l *eventlog.Log) *Webhooks { return deliveries.New(s.Store, l) }

// NewMarket returns the market's part of s.
func NewMarket(s *Store) *Market { return market.New(s.Client) }
