package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// Cluster is a Redis Cluster of a test's own: masters without persistence, and without replicas
// until AddReplicas, on ports of this machine.
type Cluster struct {
	tb    testing.TB
	nodes []*redis.Client // the masters
	kills []func()        // of the same
}

// NewCluster starts a cluster. It is stopped when the test ends.
func NewCluster(tb testing.TB, masters int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	ctx := context.Background()
	for i := range masters {
		node, kill := startNode(tb)
		if err := node.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			tb.Fatalf("give slots to a node: %v", err)
		}
		for _, other := range c.nodes {
			host, port, _ := net.SplitHostPort(other.Options().Addr)
			if err := node.ClusterMeet(ctx, host, port).Err(); err != nil {
				tb.Fatalf("join nodes: %v", err)
			}
		}
		c.nodes, c.kills = append(c.nodes, node), append(c.kills, kill)
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

// startNode starts one node, which knows no other. kill ends its process at once.
func startNode(tb testing.TB) (node *redis.Client, kill func()) {
	tb.Helper()
	path := binary(tb)
	dir, err := newDir()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	for range startTries {
		address := "127.0.0.1:" + FreePort(tb)
		_, port, _ := net.SplitHostPort(address)
		cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes",
			"--cluster-node-timeout", nodeTimeout, "--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0", "--dir", dir, "--save", "", "--appendonly", "no",
			"--logfile", filepath.Join(dir, "log"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			tb.Fatalf("start redis-server: %v", err)
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
		kill := func() {
			cmd.Process.Kill()
			<-ended
		}
		tb.Cleanup(func() {
			client.Close()
			kill()
		})
		if answers(tb, client, ended) {
			return client, kill
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	tb.Fatalf("redis-server does not start as a node of a cluster:\n%s", log)
	return nil, nil
}

// answers waits until the server of c answers. It returns false if the process ends.
func answers(tb testing.TB, c *redis.Client, ended <-chan struct{}) bool {
	tb.Helper()
	for deadline := time.Now().Add(startTimeout); ; {
		err := c.Ping(context.Background()).Err()
		select {
		case <-ended: // the answer came from another program on this port
			return false
		case <-time.After(2 * time.Millisecond):
		}
		if err == nil {
			return true
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redis-server does not answer: %v", err)
		}
	}
}

// FreePort returns a port of 127.0.0.1 that was free a moment ago, as was the second port that
// a node of a cluster needs.
func FreePort(tb testing.TB) string {
	tb.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		bus, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+busOffset))
		l.Close()
		if err == nil {
			bus.Close()
			return strconv.Itoa(port)
		}
	}
}

// AddReplicas gives masters a replica each, by their numbers, and waits until these have the same
// data and all masters know them.
func (c *Cluster) AddReplicas(of ...int) {
	c.tb.Helper()
	ctx := context.Background()
	for _, n := range of {
		master := c.nodes[n]
		replica, _ := startNode(c.tb)
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
func (c *Cluster) Kill(master int) { c.kills[master]() }

// URL returns the cluster's address for persistence.Options: its masters.
func (c *Cluster) URL() string {
	addresses := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addresses[i] = node.Options().Addr
	}
	return "redis+cluster://" + strings.Join(addresses, ",")
}

// Client returns a client of the cluster, closed when the test ends.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].Options().Addr}})
	c.tb.Cleanup(func() { client.Close() })
	return client
}

// Nodes returns a client of each node.
func (c *Cluster) Nodes() []*redis.Client { return c.nodes }

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
	at := slices.IndexFunc(c.nodes, func(n *redis.Client) bool { return n.ClusterCountKeysInSlot(ctx, slot).Val() > 0 })
	if at < 0 {
		c.tb.Fatalf("nothing is in the slot of %s", key)
	}
	from, to := c.nodes[at], c.nodes[(at+1)%len(c.nodes)]
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
	}
}
