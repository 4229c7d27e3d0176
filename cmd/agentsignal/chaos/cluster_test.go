package chaos

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	signing "github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
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

	process *exec.Cmd
	log     *commandtest.Journal
	over    chan struct{}          // closed when the process has ended
	logs    []*commandtest.Journal // of all processes; the last is log
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

// build builds the program with additional flags of "go build", and returns its path.
func build(tb testing.TB, flags ...string) (program string) {
	tb.Helper()
	program = filepath.Join(tb.TempDir(), "agentsignal")
	arguments := slices.Concat([]string{"build", "-race", "-o", program}, flags, []string{".."})
	if out, err := exec.Command("go", arguments...).CombinedOutput(); err != nil {
		tb.Fatalf("build the program: %v\n%s", err, out)
	}
	return program
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
		"HTTP_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "AUDIT_EVERY=0",
		fmt.Sprintf("REDIS_WAIT_REPLICAS=%d", replicas)}
	for _, class := range []string{"READS", "RUNS", "WRITES", "STREAMS", "LOGINS", "REGISTRATIONS", "SESSIONS",
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
	n.process, n.log, n.over = exec.Command(n.program, "serve"), &commandtest.Journal{}, make(chan struct{})
	n.logs = append(n.logs, n.log)
	n.process.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	for _, s := range n.settings {
		n.process.Env = append(n.process.Env, "AGENTSIGNAL_"+s)
	}
	n.process.Stdout, n.process.Stderr = n.log, n.log
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	commandtest.Must(n.tb, n.process.Start())
	process, log, over := n.process, n.log, n.over
	go func() {
		process.Wait()
		close(over)
	}()
	n.tb.Cleanup(func() {
		process.Process.Kill()
		<-over
		if n.jumped.Load() {
			log.Forget("an old head") // no checkpoint is signed until the clock is where it was
		}
		log.Blame(n.tb)
	})
	commandtest.Eventually(n.tb, n.name+" listens", func() bool {
		line := n.log.Line(`"msg":"agentsignal listens"`)
		if !strings.HasSuffix(line, "\n") {
			return false
		}
		var logged struct{ Addr string }
		commandtest.Must(n.tb, json.Unmarshal([]byte(line), &logged))
		url := "http://" + logged.Addr
		n.url.Store(&url)
		return true
	})
}

// awaitReady waits until the node reports that it is ready.
func (n *node) awaitReady() {
	n.tb.Helper()
	commandtest.Eventually(n.tb, n.name+" is ready", func() bool {
		select {
		case <-n.over:
			n.tb.Fatalf("%s has ended:\n%s", n.name, n.log.Newest())
		default:
		}
		answer, err := http.Get(*n.url.Load() + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// end sends a signal to the process and waits for its end.
func (n *node) end(s syscall.Signal) {
	n.tb.Helper()
	commandtest.Must(n.tb, n.process.Process.Signal(s))
	select {
	case <-n.over:
	case <-time.After(commandtest.Patience):
		n.process.Process.Signal(syscall.SIGQUIT) // its log shows where it hangs
		<-n.over
		n.tb.Fatalf("%s does not end:\n%s", n.name, n.log.Newest())
	}
	n.url.Store(nil)
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
