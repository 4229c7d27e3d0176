package redisclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Limits of the connections to Redis.
const (
	defaultTimeout = 2 * time.Second // of Options
	// BlockTimeout bounds a blocking read, since go-redis ignores the end of a context
	// during one.
	BlockTimeout = time.Second
	// clusterReload is how often the slot map is read: the library's default of a minute
	// would hide a failover for as long.
	clusterReload = 2 * time.Second
	// commandConns and pipelineConns are how many connections for commands there are at most, and
	// how many more for pipelines, each to one server; pipelines beyond these use those for commands.
	commandConns, pipelineConns = 16, 10
	// blockingConns is how many connections for reads with BLOCK there are besides one for
	// each partition, which the tail reads separately on a cluster.
	blockingConns = 10
)

// Options are the settings of the connection.
type Options struct {
	// URL is redis://, unix://, redis+cluster://host:port,host:port or
	// redis+sentinel://host:port,host:port/master; rediss in place of redis is TLS.
	// The user and the password of sentinels are in the query: sentinel_username,
	// sentinel_password.
	URL string
	// CAFile has the certificates, in PEM, of the authorities to trust; empty: the system's.
	CAFile string
	// Partitions is 1 to MaxPartitions; 0 means 16. EvenSlots is Installation.Even. Installed sets both.
	Partitions int
	EvenSlots  bool
	// InstallationID distinguishes the installation from all others. Installed sets it; empty: the
	// client does not compare it.
	InstallationID string
	// WaitReplicas is how many replicas must have a change before it is acknowledged.
	WaitReplicas int
	// AcceptWithoutReplicas acknowledges changes without waiting while replicas are missing. By
	// default they are refused then.
	AcceptWithoutReplicas bool
	// Timeout is how long connecting and how long a command may take; default 2 s. Half of
	// it is for the wait for replicas.
	Timeout time.Duration
	// Node is the id of the node that the process is, or empty if it is not a node.
	Node    string
	Log     *slog.Logger // nil: no logging
	Metrics *Metrics     // nil: no metrics
}

// Client is the connection to Redis, or to a Redis Cluster, that all records share.
type Client struct {
	Keys // the names of the installation's keys

	// RDB is for commands. It never retries: after a lost reply it is unknown whether a
	// command took effect. The log retries its batches, which are idempotent.
	RDB redis.UniversalClient
	// Blocking is for reads with BLOCK, so that they take no connection of RDB.
	Blocking    redis.UniversalClient
	endBlocking func() error // closes Blocking, once

	// Nonce distinguishes this client, and so its process, from all others that were or will be
	// the same node.
	Nonce string

	node         string
	partitions   int
	installation string // Options.InstallationID
	WaitReplicas int
	accept       bool          // Options.AcceptWithoutReplicas
	failsOver    bool          // Options.URL is that of sentinels or a cluster
	replicasIn   time.Duration // how long Redis waits for them
	outages      outages
	reads        reads
	Log          *slog.Logger
	Metrics      *Metrics
	clock        atomic.Pointer[clock] // nil until it is synchronized
	readiness    readiness
}

// NewClient prepares the connection. It does not wait for Redis: see Ready. It fails
// if an option is not valid.
func NewClient(o Options) (*Client, error) {
	if o.Partitions == 0 {
		o.Partitions = 16
	}
	if o.Partitions < 1 || o.Partitions > MaxPartitions {
		return nil, errPartitions(o.Partitions)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	base, err := parseURL(o.URL, o.CAFile)
	if err != nil {
		return nil, err
	}
	base.Protocol = 3
	base.DialTimeout = o.Timeout
	base.ReadTimeout = o.Timeout
	base.WriteTimeout = o.Timeout
	base.MaxRetries = -1
	base.DialerRetries = 1 // callers decide on this, too
	// Only the servers of one vendor know these notifications.
	base.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	base.DisableIdentity = true // the command is newer than Redis 7.0
	base.PoolSize, base.PipelinePoolSize = commandConns, pipelineConns
	SetLogger(o.Log)
	c := &Client{
		Nonce:        rand.Text(),
		node:         o.Node,
		partitions:   o.Partitions,
		installation: o.InstallationID,
		WaitReplicas: o.WaitReplicas,
		accept:       o.AcceptWithoutReplicas,
		failsOver:    FailsOver(o.URL),
		replicasIn:   o.Timeout / 2,
		Log:          o.Log,
		Metrics:      o.Metrics,
	}
	c.Keys = Installation{o.Partitions, o.EvenSlots}.Keys()
	c.outages = outages{log: o.Log, metrics: o.Metrics, ended: map[string]chan struct{}{}}
	c.outages.probe = func(ctx context.Context, confirm string) error {
		return c.Guarded(func() error { return c.Confirm(ctx, confirm, func(redis.Pipeliner) {}) })
	}
	c.reads.last = map[string]*sharedWait{}
	c.RDB = dial(base)
	blocking := *base
	blocking.PoolSize, blocking.PipelinePoolSize = o.Partitions+blockingConns, -1 // no pipelines
	c.Blocking = dial(&blocking)
	c.endBlocking = sync.OnceValue(c.Blocking.Close)
	if o.Metrics != nil {
		c.RDB.AddHook(o.Metrics)
		c.Blocking.AddHook(o.Metrics)
		o.Metrics.Registry.MustRegister(newPoolCollector(c))
	}
	return c, nil
}

// SetLogger makes the library of this process log to log instead of stderr.
func SetLogger(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

// clientLog logs the library's messages: failed dials, which callers report, too.
type clientLog struct{ log *slog.Logger }

// Printf implements the library's interface.
func (l clientLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", "component", "persistence", "text", fmt.Sprintf(format, v...))
}

// dial makes a client for the kind of server that o names. NewUniversalClient would treat a
// cluster with one seed as a single server.
func dial(o *redis.UniversalOptions) redis.UniversalClient {
	if o.IsClusterMode {
		c := o.Cluster()
		c.ClusterStateReloadInterval = clusterReload
		c.NewClient = func(o *redis.Options) *redis.Client {
			node := redis.NewClient(o)
			node.AddHook(sentOnce{})
			return node
		}
		return redis.NewClusterClient(c)
	}
	return redis.NewUniversalClient(o)
}

// sentOnce prevents a cluster's client from repeating a command whose reply was lost, which
// it does regardless of MaxRetries. The client still follows moved slots and repeats what a
// node has refused.
type sentOnce struct{}

// lostReply hides an error from the client, which therefore does not try again.
type lostReply struct{ text string }

func (e lostReply) Error() string { return e.text }

// ProcessHook implements redis.Hook.
func (sentOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil || ctx.Err() != nil {
			return err
		}
		var answer redis.Error
		var dial *net.OpError
		if errors.As(err, &answer) || errors.As(err, &dial) && dial.Op == "dial" {
			return err
		}
		return lostReply{err.Error()}
	}
}

// DialHook implements redis.Hook.
func (sentOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook. Pipelines to a cluster may be repeated.
func (sentOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Close ends the connections, and waits for probes of Ready and for replicas, which fail without
// them.
func (c *Client) Close() error {
	ctx := context.Background()
	return errors.Join(c.RDB.Close(), c.EndBlocking(), c.readiness.probes.Close(ctx), c.outages.probes.Close(ctx))
}

// Process returns "NODE NONCE", or "" if the process is no node.
func (c *Client) Process() string {
	if c.node == "" {
		return ""
	}
	return c.node + " " + c.Nonce
}

// EndBlocking ends the reads that wait for entries with an error, and later ones fail. The end
// of its context does not end a read that waits.
func (c *Client) EndBlocking() error { return c.endBlocking() }

// Partitions returns the number of partitions.
func (c *Client) Partitions() int { return c.partitions }

// Partition returns the partition of account, 0 to Partitions()-1.
func (c *Client) Partition(account signal.AccountID) int {
	return PartitionOf(account, c.partitions)
}

// clock is the time of Redis' clock at a local time. Since then the monotonic clock counts, so that the time
// stays right when the local clock is set.
type clock struct{ redis, local time.Time }

// Now returns the time of Redis' clock, which all nodes share, as SyncClock last measured it.
func (c *Client) Now() time.Time {
	k := c.clock.Load()
	if k == nil {
		return time.Now().UTC()
	}
	return k.redis.Add(time.Since(k.local)).UTC()
}

const (
	// clockTries is how often readClock reads the time at most, clockGood the round trip that
	// is quick enough.
	clockTries = 5
	clockGood  = time.Millisecond
)

// SyncClock reads Redis' clock. A reading is off by up to half of the round trip, which may be long while the
// process starts or the machine is busy, so the quickest of several counts.
func (c *Client) SyncClock(ctx context.Context) error {
	best, _, err := readClock(ctx, c.RDB)
	if err != nil {
		return err
	}
	c.clock.Store(&best)
	return nil
}

// readClock returns the quickest of several readings of a server's clock, and its round trip.
func readClock(ctx context.Context, server redis.Cmdable) (best clock, quickest time.Duration, err error) {
	for i := range clockTries {
		before := time.Now()
		t, err := server.Time(ctx).Result()
		if err != nil {
			return clock{}, 0, fmt.Errorf("read the time: %w", err)
		}
		took := time.Since(before)
		if i == 0 || took < quickest {
			best, quickest = clock{t, before.Add(took / 2)}, took
		}
		if quickest <= clockGood {
			break
		}
	}
	return best, quickest, nil
}

// MemoryUsed returns the bytes that Redis has allocated, for benchmarks.
func (c *Client) MemoryUsed(ctx context.Context) (int64, error) {
	info, err := c.RDB.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return used, nil
}

// Masters returns the servers that hold the keys, in a stable order.
func (c *Client) Masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := c.RDB.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{c.RDB}, nil
	}
	var mu sync.Mutex
	var clients []*redis.Client
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		clients = append(clients, master)
		return nil
	})
	slices.SortFunc(clients, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	masters := make([]redis.Cmdable, len(clients))
	for i, master := range clients {
		masters[i] = master
	}
	return masters, err
}
