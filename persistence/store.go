package persistence

import redisclient "github.com/agentsignal/agentsignal/persistence/redis"

// Options says which Redis to use and how.
type Options = redisclient.Options

// Store is the connection to Redis and all records of this package.
type Store struct {
	*redisclient.Client
	streams  *streamMetrics // nil: not measured
	sizes    *sizes
	appended []newest // by partition
}

// Open prepares the connection. It does not wait for Redis: see Ready. It fails
// if an option is not valid.
func Open(o Options) (*Store, error) {
	c, err := redisclient.NewClient(o)
	if err != nil {
		return nil, err
	}
	s := &Store{Client: c, appended: make([]newest, c.Partitions())}
	if o.Metrics != nil {
		s.streams, s.sizes = newStreamMetrics(o.Metrics.Registry), newSizes(o.Metrics.Registry)
	}
	return s, nil
}
