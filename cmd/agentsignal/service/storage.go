package service

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// storage is the records in Redis, and the log and the tail of events.
type storage struct {
	store  *persistence.Store
	events *eventlog.Log
	tail   *eventlog.Tail
}

// openStorage opens the store by the names and the number of partitions of its installation.
// KindUnavailable: Redis does not answer.
func openStorage(ctx context.Context, e environment, n *node) (*storage, error) {
	timeout := time.Duration(e.config.Redis.Timeout)
	o := StoreOptions(e.config, string(e.config.Redis.URL))
	o.Timeout, o.Node, o.Log, o.Metrics = timeout, n.id, e.log, n.redisMetrics
	if n.embedded != nil {
		o.URL = n.embedded.URL()
	}
	o, err := redisclient.Installed(ctx, o)
	if err != nil {
		return nil, err
	}
	store, err := persistence.Open(o)
	if err != nil {
		return nil, err
	}
	if err := store.Client.Reads.LearnServers(ctx); err != nil {
		_ = store.Client.Close() // it will be opened again
		return nil, err
	}
	e.stops.Add("connection to redis", func(context.Context) error { return store.Client.Close() })
	events := eventlog.NewLog(store.Logs, eventlog.LogOptions{AppendTimeout: timeout, Log: e.log})
	e.stops.Add("log", events.Close)
	tail := eventlog.NewTail(store.Logs, eventlog.TailOptions{Log: e.log})
	e.registry.MustRegister(tail.Collector())
	e.stops.Add("questions of the tail", tail.Close)
	return &storage{store, events, tail}, nil
}
