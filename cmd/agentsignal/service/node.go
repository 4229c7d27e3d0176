package service

import (
	"context"
	"net"

	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// node is what a process has without Redis: its data directory with the Redis that it may have started there,
// its address, and the metrics of its servers and of its connections to Redis.
type node struct {
	id           string            // of this node
	place        string            // of its data directory, see datadir.NodeID.Place
	embedded     *datadir.Embedded // nil with redis.url
	keys         keys
	certificate  *certificate // nil without TLS
	listener     net.Listener
	redisMetrics *redisclient.Metrics
	httpMetrics  *signalhttp.Metrics
	connections  *signalhttp.ConnectionLimit
}

// newNode opens the data directory, starts Redis if none is configured, and binds the address.
func newNode(ctx context.Context, e environment) (*node, error) {
	id, err := datadir.OpenNodeID(e.config.DataDir)
	if err != nil {
		return nil, err
	}
	e.stops.Add("node", func(context.Context) error { return id.Close() })
	n := &node{id: id.String(), place: id.Place()}
	if n.keys, err = readKeys(e.config); err != nil {
		return nil, err
	}
	if e.config.Redis.URL == "" {
		if n.embedded, err = startRedis(ctx, e); err != nil {
			return nil, err
		}
	}
	n.redisMetrics = redisclient.NewMetrics(e.registry)
	n.httpMetrics = signalhttp.NewMetrics(e.registry)
	trusted, err := parsePrefixes("http.trusted_proxies", e.config.HTTP.TrustedProxies)
	if err != nil {
		return nil, err
	}
	n.connections = signalhttp.NewConnectionLimit(e.config.HTTP.MaxAnonymous, trusted, n.httpMetrics)
	if n.certificate, err = loadCertificate(e.config.TLS, e.registry); err != nil {
		return nil, err
	}
	n.listener, err = listen(ctx, e, "listener", "http.addr", e.config.HTTP.Addr)
	return n, err
}

// startRedis starts a Redis in the data directory.
func startRedis(ctx context.Context, e environment) (*datadir.Embedded, error) {
	embedded, err := datadir.StartEmbedded(ctx, datadir.EmbeddedOptions{
		Dir:       e.config.DataDir,
		MaxMemory: int64(e.config.Redis.MaxMemory),
		Log:       e.log,
	})
	if err != nil {
		return nil, err
	}
	e.stops.Add("redis", embedded.Stop)
	if embedded.Durable() {
		e.log.Info("redis is started in the data directory", "dir", embedded.Dir(), "new", embedded.New())
	}
	return embedded, nil
}
