package persistence

import redisclient "github.com/agentsignal/agentsignal/persistence/redis"

// Options says which Redis to use and how.
type Options = redisclient.Options

// Store is the connection to Redis and all records of this package.
type Store struct {
	*redisclient.Client
	*logStore
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
	s := &Store{Client: c, logStore: newLogStore(c)}
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
