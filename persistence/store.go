package persistence

// Options says which Redis to use and how.
type Options = clientOptions

// Store is the connection to Redis and all records of this package.
type Store struct {
	*Client
	streams  *streamMetrics // nil: not measured
	sizes    *sizes
	appended []newest // by partition
}

// Open prepares the connection. It does not wait for Redis: see Ready. It fails
// if an option is not valid.
func Open(o Options) (*Store, error) {
	c, err := NewClient(o)
	if err != nil {
		return nil, err
	}
	s := &Store{Client: c, appended: make([]newest, c.Partitions())}
	if o.Metrics != nil {
		s.streams, s.sizes = newStreamMetrics(o.Metrics.registry), newSizes(o.Metrics.registry)
	}
	return s, nil
}
