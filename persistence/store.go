package persistence

import (
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Options says which Redis to use and how.
type Options = redisclient.Options

// Store is the connection to Redis and all records of this package.
type Store struct {
	*redisclient.Client
	*logStore
	*credentialRecords
	*signalStore
	*requestStore
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
	logs := newLogStore(c)
	signals := newSignalStore(logs)
	s := &Store{
		Client:          c,
		logStore:        logs,
		credentialRecords: newCredentialRecords(c),
		signalStore:     signals,
		requestStore:    newRequestStore(c, signals),
	}
	if o.Metrics != nil {
		s.streams, s.sizes = newStreamMetrics(o.Metrics.Registry), newSizes(o.Metrics.Registry)
	}
	return s, nil
}

// NewLog starts the writers of a log. Close ends them.
func NewLog(s *Store, o LogOptions) *Log { return newLog(s.logStore, o) }

// NewTail returns a tail of s. Subscribe, then Run.
func NewTail(s *Store, o TailOptions) *Tail { return newTail(s.logStore, o) }

// NewTrimmer returns a trimmer of the logs of s.
func NewTrimmer(s *Store, o TrimOptions) *Trimmer { return newTrimmer(s.logStore, o) }

// NewJobs returns the jobs of s. node is the node's id, under which it takes jobs:
// no two processes may use the same at once.
func NewJobs(s *Store, node string, o JobsOptions) *Jobs {
	o.Reclaimed = s.countReclaimed
	return newJobs(s.Client, node, o)
}

// NewSchedules returns the schedules of s.
func NewSchedules(s *Store, l *Log) *Schedules { return newSchedules(s.Client, l) }

// NewWebhooks returns the webhooks of s and their deliveries.
func NewWebhooks(s *Store, l *Log) *Webhooks { return newWebhooks(s.logStore, l) }

// NewMarket returns the market's part of s.
func NewMarket(s *Store) *Market { return newMarket(s.Client) }
