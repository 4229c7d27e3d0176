package chaos

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	signing "github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// lease is that of the nodes. It is short, so that a run has many changes of owners.
const lease = 3 * time.Second

// appendTimeout is how long an append to the log tries to reach Redis, by default.
const appendTimeout = 2 * time.Second

// node is a node of the service, which may be down.
type node struct {
	tb       testing.TB
	jumped   *atomic.Bool
	program  string
	settings []string
	name     string
	link     *redistest.Proxy       // its connections to Redis; nil if these need no proxy or cannot have one
	url      atomic.Pointer[string] // http://host:port; nil while it is down

	child *e2e.Child             // the newest process
	logs  []*commandtest.Journal // of all processes
}

// cluster is the service on several nodes, and their Redis.
type cluster struct {
	tb       testing.TB
	redis    topology
	replicas int // that must confirm
	faults   []fault
	jumped   atomic.Bool // a clock of Redis
	nodes    []*node
	further  *node              // down, except during one fault
	store    *persistence.Store // to look at the records
}

// newCluster starts a service of n nodes of a program on the Redis of that name.
func newCluster(tb testing.TB, program string, n int, name string) *cluster {
	tb.Helper()
	redis, faults, replicas := newTopology(tb, name)
	c := &cluster{tb: tb, redis: redis, replicas: replicas, faults: slices.Concat(nodeFaults, faults)}
	tb.Cleanup(c.keepLogs)
	secret := "main:" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	key, err := signing.NewKey("agentsignal-test")
	commandtest.Must(tb, err)
	shared := []string{"CLUSTER=true", "LEASE=" + lease.String(), "AUTH_JWT_KEYS=" + secret,
		"SECURITY_ENCRYPTION_KEYS=" + secret, "SECURITY_RECORD_KEYS=" + key, "AUTH_REGISTRATION=open",
		"MARKET_SPEED=600", "WEBHOOKS_ALLOWED_NETWORKS=127.0.0.0/8", "WEBHOOKS_RETRY_SCHEDULE=200ms,500ms,1s,2s,4s,8s",
		"AUDIT_EVERY=0",
		fmt.Sprintf("REDIS_WAIT_REPLICAS=%d", replicas)}
	for _, class := range []string{"READS", "RUNS", "INTAKES", "WRITES", "STREAMS", "LOGINS", "REGISTRATIONS", "SESSIONS",
		"FAILURES", "SCRAPES"} {
		shared = append(shared, "RATE_LIMIT_"+class+"=off")
	}
	newNode := func(i int) *node {
		link, url := newLink(tb, c.redis)
		return &node{tb: tb, jumped: &c.jumped, program: program, name: fmt.Sprintf("node %d", i), link: link,
			settings: append([]string{"DATA_DIR=" + tb.TempDir(), "REDIS_URL=" + url}, shared...)}
	}
	for i := range n {
		c.nodes = append(c.nodes, newNode(i))
	}
	c.further = newNode(n)
	for _, n := range c.nodes {
		n.start()
	}
	for _, n := range c.nodes {
		n.awaitReady()
	}
	return c
}

// newLink returns how a node reaches Redis: by a proxy of its own if that is one server. Nodes of a
// cluster and sentinels name the addresses of servers, so that clients do not stay with a proxy.
func newLink(tb testing.TB, redis topology) (link *redistest.Proxy, url string) {
	s, ok := redis.(single)
	if !ok {
		return nil, redis.URL()
	}
	link = redistest.NewProxy(tb, s.Server)
	return link, strings.Replace(link.URL(), "://", "://"+redistest.User+":any@", 1)
}

// keepLogs leaves all logs in a directory if the test has failed.
func (c *cluster) keepLogs() {
	if !c.tb.Failed() {
		return
	}
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		c.tb.Error(err)
		return
	}
	keep := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			c.tb.Error(err)
		}
	}
	for i, n := range append(slices.Clone(c.nodes), c.further) {
		for k, log := range n.logs {
			keep(fmt.Sprintf("node%d-%d.log", i, k), log.String())
		}
	}
	for i, s := range c.redis.Servers() {
		keep(fmt.Sprintf("redis%d.log", i), s.Log())
	}
	c.tb.Logf("all logs are in %s", dir)
}

// start starts the process and waits until it listens.
func (n *node) start() {
	n.tb.Helper()
	child := e2e.SpawnProgram(n.tb, n.program, []string{"serve"}, n.settings...)
	n.child, n.logs = child, append(n.logs, child.Log)
	n.tb.Cleanup(func() {
		child.Kill()
		if n.jumped.Load() {
			child.Log.Forget("an old head") // no checkpoint is signed until the clock is where it was
		}
	})
	child.AwaitAddress(n.tb)
	n.url.Store(&child.URL)
}

// awaitReady waits until the node reports that it is ready.
func (n *node) awaitReady() {
	n.tb.Helper()
	n.child.AwaitReady(n.tb)
}

// end sends a signal to the process and waits for its end.
func (n *node) end(s syscall.Signal) (code int) {
	n.tb.Helper()
	n.child.Signal(s)
	code, _ = n.child.Exit()
	n.url.Store(nil)
	return code
}

// address returns where node i is reached, or the next one that is up; "" if none is.
func (c *cluster) address(i int) string {
	for k := range c.nodes {
		if url := c.nodes[(i+k)%len(c.nodes)].url.Load(); url != nil {
			return *url
		}
	}
	return ""
}
