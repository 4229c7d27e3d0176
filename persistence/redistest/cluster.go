package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// clusterTimeout bounds the wait for the nodes to know each other.
	clusterTimeout = 60 * time.Second
	// slots is how many hash slots a cluster has.
	slots = 16384
	// busOffset is how far the port between nodes is above that for clients.
	busOffset = 10_000
	// nodeTimeout, in milliseconds, is after which a master that does not answer is replaced.
	nodeTimeout = "5000"
	// startTries is how often a node is started if other programs take its ports first.
	startTries = 10
)

// Cluster is a Redis Cluster of a test's own: masters, without replicas until AddReplicas, on ports
// of this machine. They keep their data in memory, unless arguments add an append-only file.
type Cluster struct {
	tb      testing.TB
	args    []string
	nodes   []*redis.Client // the first masters
	clients []*redis.Client // of servers
	servers []*Server       // the first masters, then the first replicas
}

// NewCluster starts a cluster, with additional arguments of each server. It is stopped when the
// test ends.
func NewCluster(tb testing.TB, masters int, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, args: args}
	ctx := context.Background()
	for i := range masters {
		node, server := startNode(tb, args)
		if err := node.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			tb.Fatalf("give slots to a node: %v", err)
		}
		for _, other := range c.nodes {
			host, port, _ := net.SplitHostPort(other.Options().Addr)
			if err := node.ClusterMeet(ctx, host, port).Err(); err != nil {
				tb.Fatalf("join nodes: %v", err)
			}
		}
		c.nodes, c.servers = append(c.nodes, node), append(c.servers, server)
		c.clients = append(c.clients, node)
	}
	deadline := time.Now().Add(clusterTimeout)
	for _, node := range c.nodes {
		for {
			info, err := node.ClusterInfo(ctx).Result()
			complete := strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", masters))
			if err == nil && complete && strings.Contains(info, "cluster_state:ok") {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatalf("the nodes do not form a cluster: %v\n%s", err, info)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return c
}

// startNode starts one server, which knows no other.
func startNode(tb testing.TB, args []string) (*redis.Client, *Server) {
	tb.Helper()
	var s *Server
	for range startTries {
		port := FreePort(tb)
		s = newServer(tb, nil, slices.Concat([]string{"--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes",
			"--cluster-node-timeout", nodeTimeout, "--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0", "--save", "", "--appendonly", "no"}, userArgs(tb), args))
		if s.start() {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, MaxRetries: -1})
			tb.Cleanup(func() { client.Close() })
			return client, s
		}
	}
	tb.Fatalf("redis-server does not start as a node of a cluster:\n%s", s.Log())
	return nil, nil
}

// Ports of servers lie below those that Linux gives to connections, so that a server that is down
// does not lose its port.
const firstPort, ports = 10_000, 12_000

// givenPorts has the ports that FreePort has returned: a server may not listen at one yet.
var givenPorts sync.Map

// FreePort returns a port of 127.0.0.1 that was free a moment ago, as was the second port that
// a node of a cluster needs. It returns no port twice.
func FreePort(tb testing.TB) string {
	tb.Helper()
	free := func(port int) bool {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			l.Close()
		}
		return err == nil
	}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		port := firstPort + rand.IntN(ports)
		if !free(port) || !free(port+busOffset) {
			continue
		}
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return strconv.Itoa(port)
		}
	}
	tb.Fatal("no port is free")
	return ""
}

// AddReplicas gives masters a replica each, by their numbers, and waits until these have the same
// data and all masters know them.
func (c *Cluster) AddReplicas(of ...int) {
	c.tb.Helper()
	ctx := context.Background()
	for _, n := range of {
		master := c.nodes[n]
		replica, server := startNode(c.tb, c.args)
		c.servers, c.clients = append(c.servers, server), append(c.clients, replica)
		host, port, _ := net.SplitHostPort(master.Options().Addr)
		if err := replica.ClusterMeet(ctx, host, port).Err(); err != nil {
			c.tb.Fatalf("join replica: %v", err)
		}
		id := master.ClusterMyID(ctx).Val()
		Eventually(c.tb, func() bool { return replica.ClusterReplicate(ctx, id).Err() == nil })
	}
	for _, master := range c.nodes {
		Eventually(c.tb, func() bool {
			return strings.Count(master.ClusterNodes(ctx).Val(), "slave") == len(of) && allOnline(ctx, master)
		})
	}
}

// Kill ends a master at once, as kill -9 does.
func (c *Cluster) Kill(master int) { c.servers[master].Kill() }

// URL returns the cluster's address for persistence.Options: its masters.
func (c *Cluster) URL() string {
	addresses := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addresses[i] = node.Options().Addr
	}
	return "redis+cluster://" + User + ":any@" + strings.Join(addresses, ",")
}

// Client returns a client of the cluster, closed when the test ends.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].Options().Addr}})
	c.tb.Cleanup(func() { client.Close() })
	return client
}

// Nodes returns a client of each node.
func (c *Cluster) Nodes() []*redis.Client { return c.nodes }

// Servers returns all servers: the first masters, then the first replicas.
func (c *Cluster) Servers() []*Server { return c.servers }

// Masters returns the servers that are masters at present.
func (c *Cluster) Masters() []*Server { return mastersOf(c.servers) }

// AwaitFailover waits until another server has taken the place of old, which is paused or ended.
func (c *Cluster) AwaitFailover(old *Server) {
	c.tb.Helper()
	others := slices.DeleteFunc(slices.Clone(c.servers), func(s *Server) bool { return s == old })
	eventually(c.tb, settleTimeout, settleEvery, func() bool { return len(mastersOf(others)) == len(c.nodes) })
}

// AwaitSettled waits until all servers agree that none is missing, and all replicas are in step.
func (c *Cluster) AwaitSettled() {
	c.tb.Helper()
	eventually(c.tb, settleTimeout, settleEvery, func() bool {
		for _, s := range c.servers {
			nodes := s.command("CLUSTER", "NODES")
			if !strings.Contains(s.command("CLUSTER", "INFO"), "cluster_state:ok") || strings.Contains(nodes, "fail") ||
				strings.Count(nodes, "master") != len(c.nodes) {
				return false
			}
		}
		return settled(c.servers, len(c.nodes))
	})
}

// Move moves the slot of key, with all that is in it, to another node.
func (c *Cluster) Move(key string) {
	c.tb.Helper()
	c.MoveSome(key, func(int, string) bool { return true })()
}

// MoveHalf is MoveSome for every second key.
func (c *Cluster) MoveHalf(key string) (finish func()) {
	c.tb.Helper()
	return c.MoveSome(key, func(i int, _ string) bool { return i%2 == 0 })
}

// MoveSome begins to move the slot of key to another node, with those keys in it, in the order of
// their names, for which first is true. It returns a function that moves the rest.
func (c *Cluster) MoveSome(key string, first func(i int, key string) bool) (finish func()) {
	c.tb.Helper()
	ctx := context.Background()
	slot := int(c.nodes[0].ClusterKeySlot(ctx, key).Val())
	var masters []*redis.Client
	for i, s := range c.servers {
		if s.IsMaster() {
			masters = append(masters, c.clients[i])
		}
	}
	at := slices.IndexFunc(masters, func(n *redis.Client) bool { return n.ClusterCountKeysInSlot(ctx, slot).Val() > 0 })
	if at < 0 {
		c.tb.Fatalf("nothing is in the slot of %s", key)
	}
	from, to := masters[at], masters[(at+1)%len(masters)]
	do := func(node *redis.Client, words ...any) {
		c.tb.Helper()
		if err := node.Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, words...)...).Err(); err != nil {
			c.tb.Fatalf("move slot of %s: %v", key, err)
		}
	}
	id := to.ClusterMyID(ctx).Val()
	do(to, "IMPORTING", from.ClusterMyID(ctx).Val())
	do(from, "MIGRATING", id)
	host, port, _ := net.SplitHostPort(to.Options().Addr)
	move := func(keys []string) {
		for _, k := range keys {
			if err := from.Migrate(ctx, host, port, k, 0, startTimeout).Err(); err != nil {
				c.tb.Fatalf("move %s: %v", k, err)
			}
		}
	}
	const most = 1 << 20
	keys := from.ClusterGetKeysInSlot(ctx, slot, most).Val()
	slices.Sort(keys)
	for i, k := range keys {
		if first(i, k) {
			move([]string{k})
		}
	}
	return func() {
		for {
			keys := from.ClusterGetKeysInSlot(ctx, slot, 100).Val()
			if len(keys) == 0 {
				break
			}
			move(keys)
		}
		do(to, "NODE", id)
		do(from, "NODE", id)
		// A server that has the slot drops it, with its keys, if another move follows too soon.
		Eventually(c.tb, func() bool {
			return !slices.ContainsFunc(c.clients, func(n *redis.Client) bool {
				return !owns(n.ClusterShards(ctx).Val(), slot, id)
			})
		})
	}
}

// owns reports whether the master with an id has a slot.
func owns(shards []redis.ClusterShard, slot int, id string) bool {
	return slices.ContainsFunc(shards, func(s redis.ClusterShard) bool {
		has := slices.ContainsFunc(s.Slots, func(r redis.SlotRange) bool { return int(r.Start) <= slot && slot <= int(r.End) })
		return has && slices.ContainsFunc(s.Nodes, func(n redis.Node) bool { return n.ID == id && n.Role == "master" })
	})
}
