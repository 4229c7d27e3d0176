package redisclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/agentsignal/agentsignal/persistence/codec"
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
	// Partitions is 1 to MaxPartitions; 0 means NewPartitions. Installed sets it.
	Partitions int
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
	*Clock

	// RDB is for commands. It never retries: after a lost reply it is unknown whether a
	// command took effect. The log retries its batches, which are idempotent.
	RDB redis.UniversalClient
	// Blocking is for reads with BLOCK, so that they take no connection of RDB.
	Blocking    redis.UniversalClient
	endBlocking func() error // closes Blocking, once

	Servers      *Servers
	Replicas     *Replicas
	Durable      *Durable
	Reads        *Reads
	Readiness    *Readiness
	Installation *Installation

	// Nonce distinguishes this client, and so its process, from all others that were or will be
	// the same node.
	Nonce   string
	node    string
	Log     *slog.Logger
	Metrics *Metrics
}

// NewClient prepares the connection. It does not wait for Redis: see Readiness. It fails
// if an option is not valid.
func NewClient(o Options) (*Client, error) {
	o.Partitions = cmp.Or(o.Partitions, NewPartitions)
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
	c := &Client{Keys: NewKeys(o.Partitions), RDB: dial(base), Nonce: rand.Text(), node: o.Node, Log: o.Log, Metrics: o.Metrics}
	blocking := *base
	blocking.PoolSize, blocking.PipelinePoolSize = o.Partitions+blockingConns, -1 // no pipelines
	c.Blocking = dial(&blocking)
	c.endBlocking = sync.OnceValue(c.Blocking.Close)
	c.Clock = &Clock{rdb: c.RDB}
	c.Servers = &Servers{rdb: c.RDB, failsOver: FailsOver(o.URL), waitReplicas: o.WaitReplicas}
	c.Replicas = newReplicas(c.Servers, o)
	c.Durable = &Durable{rdb: c.RDB, replicas: c.Replicas}
	c.Reads = &Reads{keys: c.Keys, servers: c.Servers, replicas: c.Replicas, waits: sharedWaits{last: map[string]*sharedWait{}}}
	c.Readiness = &Readiness{keys: c.Keys, servers: c.Servers, replicas: c.Replicas, log: o.Log}
	c.Installation = &Installation{rdb: c.RDB, keys: c.Keys, servers: c.Servers, reads: c.Reads, nonce: c.Nonce,
		id: o.InstallationID}
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

// Close ends the connections, and waits for probes of Readiness and for replicas, which fail without
// them.
func (c *Client) Close() error {
	ctx := context.Background()
	return errors.Join(c.RDB.Close(), c.EndBlocking(), c.Readiness.shared.tasks.Close(ctx), c.Replicas.outages.probes.Close(ctx))
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

// EraseChunk is how many records one step of erasing reads at most.
const EraseChunk = 1000

// ScanStep does a step of a scan of the server that holds key by scan, one of the SCAN commands. The cursor is "" at
// first, then next of the step before, which may be stored: it names the process of Redis that gave it, since another
// one has another order. Where another process answers, next is that of a scan that begins again. It is "" at the end.
func (c *Client) ScanStep(ctx context.Context, key, cursor string,
	scan func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd) (found []string, next string, err error) {
	server, err := c.Servers.of(ctx, key)
	if err != nil {
		return nil, "", err
	}
	number, before, _ := strings.Cut(cursor, " ")
	from, _ := strconv.ParseUint(number, 10, 64) // anything else begins the scan
	// One pipeline has one connection, and so one process.
	pipe := server.Pipeline()
	info, step := pipe.Info(ctx, "server"), scan(pipe, from)
	_ = Execute(ctx, pipe) // step has its error; a server may refuse INFO
	found, to, err := step.Result()
	if err != nil {
		return nil, "", err
	}
	process := cmp.Or(parseInfo(info.Val())["run_id"], c.Nonce)
	switch {
	case from != 0 && process != before:
		return found, "0", nil
	case to == 0:
		return found, "", nil
	}
	return found, strconv.FormatUint(to, 10) + " " + process, nil
}

// UnreadableAfter is how long an unreadable entry is postponed. It is kept because another
// version may have written it, and postponed so that it does not block others.
const UnreadableAfter = time.Hour

// Postponed returns when to read an unreadable entry again that was due until the given time.
func (c *Client) Postponed(until time.Time) time.Time {
	if now := c.Now(); until.Before(now) {
		until = now
	}
	return until.Add(UnreadableAfter)
}

// Postpone makes an unreadable member of a set by time, which was due until the given time, due
// later.
func (c *Client) Postpone(ctx context.Context, key string, until time.Time, member string) error {
	z := redis.Z{Score: float64(codec.MilliOf(c.Postponed(until))), Member: member}
	return Failed(c.RDB.ZAddXX(ctx, key, z).Err(), "postpone entry of %s", key)
}
