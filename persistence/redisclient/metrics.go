package redisclient

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Metrics measures the commands of this package, as a hook of the Redis client.
type Metrics struct {
	commandDuration *prometheus.HistogramVec
	errors          *prometheus.CounterVec
	unconfirmed     prometheus.Counter
	degraded        prometheus.Gauge
	Registry        prometheus.Registerer
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Registry: r,
		commandDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentsignal_redis_command_duration_seconds",
			Help:    "Time from sending a Redis command, or a pipeline of them, to its reply.",
			Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1},
		}, []string{"command"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_redis_errors_total", Help: "Redis commands that ended with an error.",
		}, []string{"command"}),
		unconfirmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_redis_unconfirmed_total",
			Help: "Changes acknowledged although fewer replicas have them than redis.wait_replicas.",
		}),
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_redis_degraded",
			Help: "1 while replicas that redis.wait_replicas demands are missing.",
		}),
	}
	r.MustRegister(m.commandDuration, m.errors, m.unconfirmed, m.degraded)
	for c := range knownCommands {
		m.errors.WithLabelValues(c)
	}
	return m
}

// knownCommands is the closed list of the label "command".
var knownCommands = map[string]bool{
	"pipeline": true, "other": true, "evalsha": true, "get": true, "set": true, "del": true, "hget": true,
	"hset": true, "hgetall": true, "xrange": true, "xrevrange": true, "xread": true, "xreadgroup": true,
	"xack": true, "xautoclaim": true, "xinfo": true, "xlen": true, "zrange": true, "zadd": true,
	"time": true, "ping": true,
}

// setDegraded exposes whether replicas are missing, 1 or 0. m may be nil.
func (m *Metrics) setDegraded(v float64) {
	if m != nil {
		m.degraded.Set(v)
	}
}

func commandLabel(name string) string {
	if name = strings.ToLower(name); knownCommands[name] {
		return name
	}
	return "other"
}

// DialHook implements redis.Hook.
func (m *Metrics) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (m *Metrics) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmd)
		m.Observe(commandLabel(cmd.Name()), start, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (m *Metrics) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmds)
		m.Observe("pipeline", start, err)
		return err
	}
}

// Observe records a command that began at start and ended with err.
func (m *Metrics) Observe(command string, start time.Time, err error) {
	// A blocking read waits for events, so its duration does not measure Redis.
	if command != "xread" && command != "xreadgroup" {
		m.commandDuration.WithLabelValues(command).Observe(time.Since(start).Seconds())
	}
	if err != nil && !errors.Is(err, redis.Nil) && !errors.Is(err, context.Canceled) {
		m.errors.WithLabelValues(command).Inc()
	}
}

// poolCollector exposes the library's counts of connections to Redis.
type poolCollector struct {
	client               *Client
	connections, timeout *prometheus.Desc
}

func newPoolCollector(client *Client) *poolCollector {
	return &poolCollector{
		client: client,
		connections: prometheus.NewDesc("agentsignal_redis_pool_connections",
			"Connections to Redis.", []string{"state"}, nil),
		timeout: prometheus.NewDesc("agentsignal_redis_pool_timeouts_total",
			"Commands that got no connection to Redis in time.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.connections
	ch <- c.timeout
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	a, b := c.client.RDB.PoolStats(), c.client.Blocking.PoolStats()
	idle, total := a.IdleConns+b.IdleConns, a.TotalConns+b.TotalConns
	if p := a.PipelineStats; p != nil { // TotalConns does not have them
		idle, total = idle+p.IdleConns, total+p.TotalConns
	}
	ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(idle), "idle")
	ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(total-min(idle, total)), "used")
	ch <- prometheus.MustNewConstMetric(c.timeout, prometheus.CounterValue, float64(a.Timeouts+b.Timeouts))
}
