package redisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// leastMajor is the oldest major version of Redis with the commands that this service uses.
const leastMajor = 7

// Server is what a server that holds keys reports about itself.
type Server struct {
	Addr string // host:port of a master of a cluster; empty if there is only one server
	// Info has the fields of INFO. It is nil if the user may not read them.
	Info map[string]string
	// Fsync is the setting appendfsync; empty if the user may not read it. Only Inspect sets it, and
	// what follows.
	Fsync string
	// RoundTrip is the time to the server and back, the quickest of several.
	RoundTrip time.Duration
	// Ahead is how far the server's clock is ahead of that of this machine, as exact as half of RoundTrip.
	Ahead time.Duration
}

// Servers are the servers that hold the keys: one, or the masters of a cluster.
type Servers struct {
	rdb          redis.UniversalClient
	failsOver    bool // Options.URL is that of sentinels or a cluster
	waitReplicas int  // Options.WaitReplicas
}

// cluster returns the client of a cluster.
func (s *Servers) cluster() (c *redis.ClusterClient, ok bool) {
	c, ok = s.rdb.(*redis.ClusterClient)
	return c, ok
}

// of returns the client of the server that holds a key. Commands without a key go to it, too.
func (s *Servers) of(ctx context.Context, key string) (redis.UniversalClient, error) {
	cluster, ok := s.cluster()
	if !ok {
		return s.rdb, nil
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err // not a nil master
	}
	return master, nil
}

// Masters returns the servers that hold the keys, in a stable order.
func (s *Servers) Masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := s.cluster()
	if !ok {
		return []redis.Cmdable{s.rdb}, nil
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

// Inspect asks each server that holds keys for its state, and changes nothing. KindUnavailable: one
// does not answer, or refuses the user.
func (s *Servers) Inspect(ctx context.Context) ([]Server, error) {
	return s.each(ctx, func(server *Server, master redis.Cmdable) error {
		settings, err := master.ConfigGet(ctx, "appendfsync").Result()
		if reply := redis.Error(nil); err != nil && !errors.As(err, &reply) {
			return err
		}
		server.Fsync = settings["appendfsync"]
		at, took, err := readClock(ctx, master)
		server.RoundTrip, server.Ahead = took, at.redis.Sub(at.local)
		return err
	})
}

// each returns the servers that hold keys, with the fields of INFO and what ask, unless it is nil, adds.
func (s *Servers) each(ctx context.Context, ask func(*Server, redis.Cmdable) error) ([]Server, error) {
	masters, err := s.Masters(ctx)
	if err != nil {
		return nil, Failed(err, "find the servers")
	}
	servers := make([]Server, len(masters))
	for i, master := range masters {
		server := &servers[i]
		if client, ok := master.(*redis.Client); ok && len(masters) > 1 {
			server.Addr = client.Options().Addr
		}
		text, err := master.Info(ctx).Result()
		if err == nil {
			server.Info = parseInfo(text)
		} else if reply := redis.Error(nil); errors.As(err, &reply) {
			err = nil
		}
		if err == nil && ask != nil {
			err = ask(server, master)
		}
		if err != nil {
			return nil, Failed(err, "ask for the server")
		}
	}
	return servers, nil
}

// Check returns KindConflict, "unfit_redis", if a server that holds keys cannot keep what this
// service promises, whatever its settings are, or if it evicts keys. A server that refuses INFO, as
// managed stores may, passes.
func (s *Servers) Check(ctx context.Context) error {
	servers, err := s.each(ctx, nil)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if reason := cmp.Or(server.Unfit(), server.Evicts()); reason != "" {
			return Refused("unfit_redis", reason)
		}
	}
	return nil
}

// Risks returns sentences on why a failure of a server may lose acknowledged changes, why it removes
// them by itself, or why it will soon refuse changes. A server that refuses INFO, as managed stores may, has none.
func (s *Servers) Risks(ctx context.Context) ([]string, error) {
	servers, err := s.each(ctx, nil)
	if err != nil {
		return nil, err
	}
	var found []string
	if s.failsOver && s.waitReplicas == 0 { // whether or not INFO is refused or a replica is missing now
		found = append(found, unconfirmedRisk)
	}
	for _, server := range servers {
		for _, risk := range server.risks(s.waitReplicas) {
			if !slices.Contains(found, risk) {
				found = append(found, risk)
			}
		}
	}
	return found, nil
}

// MemoryUsed returns the bytes that Redis has allocated, for benchmarks.
func (s *Servers) MemoryUsed(ctx context.Context) (int64, error) {
	info, err := s.rdb.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	used, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return used, nil
}

// unconfirmedRisk is the risk of changes that wait for no replica.
const unconfirmedRisk = "Redis may fail over to a replica, but redis.wait_replicas is 0: that may lose changes that clients " +
	"were told are stored. " + ConfirmChanges

// ConfirmChanges advises the operator of a Redis with replicas.
const ConfirmChanges = "Set redis.wait_replicas to 1, or with sentinels to the number of replicas."

// nearlyFull is the share of maxmemory from which on a server is at risk to become full.
const nearlyFull = 0.9

// risks returns the risks of a server whose changes wait for so many replicas.
func (s *Server) risks(waitReplicas int) []string {
	var found []string
	if replicas := s.Info["connected_slaves"]; waitReplicas == 0 && replicas != "" && replicas != "0" {
		found = append(found, unconfirmedRisk)
	}
	if s.Info["aof_enabled"] == "0" {
		found = append(found, "Redis has no append-only file: its restart may lose changes that clients were told are "+
			"stored. Set appendonly yes in Redis.")
	}
	if s.Evicts() != "" { // it was set after the start, or this is another server
		found = append(found, fmt.Sprintf("Redis has maxmemory-policy %s: when its memory is full, it removes what clients "+
			"were told is stored. Set maxmemory-policy noeviction in Redis.", s.Info["maxmemory_policy"]))
	}
	used, _ := strconv.ParseFloat(s.Info["used_memory"], 64)
	if limit, _ := strconv.ParseFloat(s.Info["maxmemory"], 64); used >= nearlyFull*limit && used < limit { // not full yet
		found = append(found, fmt.Sprintf("Redis uses more than %.0f %% of its maxmemory: when it is full, changes are refused. "+
			"Raise maxmemory, or shorten signals.retention and webhooks.keep.", 100*nearlyFull))
	}
	return found
}

// parseInfo returns the fields of a reply to INFO.
func parseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			fields[name] = value
		}
	}
	return fields
}

// Program returns the program and its version, such as "Redis 7.0.15", or an empty string if
// they are not known.
func (s *Server) Program() string {
	switch info := s.Info; {
	case info["dragonfly_version"] != "":
		return "Dragonfly " + info["dragonfly_version"]
	case strings.Contains(info["executable"], "keydb"):
		return "KeyDB " + info["redis_version"]
	case info["valkey_version"] != "":
		return "Valkey " + info["valkey_version"]
	case info["redis_version"] != "":
		return "Redis " + info["redis_version"]
	}
	return ""
}

// Unfit returns why the program cannot be used, or an empty string.
func (s *Server) Unfit() string {
	const advice = "use Redis 7.0 or later, or Valkey"
	if s.Info["dragonfly_version"] != "" {
		return fmt.Sprintf("this is %s, which has no append-only file: what a client was told would be lost "+
			"when it stops: %s", s.Program(), advice)
	}
	if strings.Contains(s.Info["executable"], "keydb") {
		return "this is KeyDB, which is Redis 6: " + advice
	}
	version := s.Info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < leastMajor {
		return fmt.Sprintf("this is Redis %s: %s", version, advice)
	}
	return ""
}

// Evicts returns why the server may remove keys, or an empty string. Policies that remove only keys with
// an expiry are no better: leases, logins, replies and results of batches have one. Without a limit of memory no
// policy has an effect.
func (s *Server) Evicts() string {
	limit, policy := s.Info["maxmemory"], s.Info["maxmemory_policy"]
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" {
		return ""
	}
	return fmt.Sprintf("this Redis has maxmemory-policy %s, by which it removes what a client was told is kept: "+
		"set noeviction", policy)
}
