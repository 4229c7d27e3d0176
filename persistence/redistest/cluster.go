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
	// startTries is how often a node is started if other programs take its ports first.
	startTries = 10
)

// Cluster is a Redis Cluster of a test's own: masters without replicas or
// persistence, on ports of this machine.
type Cluster struct {
	tb    testing.TB
	nodes []*redis.Client
}

// NewCluster starts a cluster. It is stopped when the test ends.
func NewCluster(tb testing.TB, masters int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	ctx := context.Background()
	for i := range masters {
		node := startNode(tb)
		if err := node.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			tb.Fatalf("give slots to a node: %v", err)
		}
		for _, other := range c.nodes {
			host, port, _ := net.SplitHostPort(other.Options().Addr)
			if err := node.ClusterMeet(ctx, host, port).Err(); err != nil {
				tb.Fatalf("join nodes: %v", err)
			}
		}
		c.nodes = append(c.nodes, node)
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

// startNode starts one node, which knows no other.
func startNode(tb testing.TB) *redis.Client {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is needed for this test: install the package redis-server")
	}
	dir, err := newDir()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	for range startTries {
		address := "127.0.0.1:" + FreePort(tb)
		_, port, _ := net.SplitHostPort(address)
		cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--cluster-enabled", "yes",
			"--cluster-node-timeout", "5000", "--dir", dir, "--save", "", "--appendonly", "no",
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
		tb.Cleanup(func() {
			client.Close()
			cmd.Process.Kill()
			<-ended
		})
		if answers(tb, client, ended) {
			return client
		}
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	tb.Fatalf("redis-server does not start as a node of a cluster:\n%s", log)
	return nil
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

// URL returns the cluster's address for persistence.Options: one of its nodes.
func (c *Cluster) URL() string { return "redis+cluster://" + c.nodes[0].Options().Addr }

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
