package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
)

const (
	nodesMost        = 3
	nodesRate        = 700 // runs a second
	nodesConnections = 48  // of all nodes together, for runs
	nodesStreams     = 400 // of all nodes together
	// nodesOwners is also the number of partitions in the measurement of a follower: a further
	// node then owns none.
	nodesOwners = 2
	nodesSettle = 3 * time.Second // until partitions have moved and the market has started, and of load before a figure
)

// cluster is a rig with several nodes.
type cluster struct {
	*rig
	nodes []*server
	key   credential.NamedKey // of all nodes
	env   []string            // of all nodes
}

// newCluster returns a cluster without nodes; 0 partitions are the default.
func newCluster(ctx context.Context, partitions int) (*cluster, error) {
	r, err := newRigOf(ctx, runAccounts, partitions)
	if err != nil {
		return nil, err
	}
	c := &cluster{rig: r, key: newKey()}
	recordKey, err := record.NewKey("bench")
	if err != nil {
		c.end(ctx, &err)
	}
	c.env = []string{"AGENTSIGNAL_CLUSTER=true", "AGENTSIGNAL_AUTH_JWT_KEYS=" + setting(c.key),
		"AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS=" + setting(c.key), "AGENTSIGNAL_SECURITY_RECORD_KEYS=" + recordKey,
		"AGENTSIGNAL_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.0/8", "AGENTSIGNAL_WEBHOOKS_ALLOW_HTTP=true"}
	return c, err
}

// registerAll registers a webhook of each account. The endpoint of the i-th one is url/i.
func (c *cluster) registerAll(ctx context.Context, url string, events ...signal.EventType) error {
	ring, err := keyring.New([]credential.NamedKey{c.key})
	if err != nil {
		return err
	}
	hooks := deliveries.New(c.store.Client, c.log)
	for i, account := range c.ids {
		hook := newHook(ring, delivery.NewSecret(), account, url+"/"+strconv.Itoa(i), events...)
		if _, err := hooks.Settings.Register(ctx, hook, 1, nil); err != nil {
			return fmt.Errorf("register webhook: %w", err)
		}
	}
	return nil
}

// listen opens n streams for all accounts, the same share at each node, and reads them until end is called.
func (c *cluster) listen(ctx context.Context, n int) (end func(), err error) {
	var group sync.WaitGroup
	var all []*websocket.Conn
	end = func() {
		for _, ws := range all {
			ws.Close()
		}
		group.Wait()
	}
	for i := range n {
		node, key := c.nodes[i%len(c.nodes)], c.keys[i%len(c.keys)]
		ws, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+node.addr+"/v1/ws/dashboard?api_key="+key, nil)
		if err != nil {
			end()
			return nil, fmt.Errorf("open stream: %w", err)
		}
		all = append(all, ws)
		if err := ws.WriteJSON(map[string]any{"action": "subscribe", "channels": []string{"signal.new"}}); err != nil {
			end()
			return nil, err
		}
		group.Go(func() {
			for {
				if _, _, err := ws.NextReader(); err != nil {
					return
				}
			}
		})
	}
	return end, nil
}

// addNode starts a node and waits until the cluster has settled.
func (c *cluster) addNode(ctx context.Context, partitions int) error {
	s, err := c.serveNode(ctx, len(c.nodes), partitions)
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, s)
	time.Sleep(nodesSettle)
	return nil
}

// serveNode starts the i-th node.
func (c *cluster) serveNode(ctx context.Context, i, partitions int) (*server, error) {
	env := append(slices.Clone(c.env), "AGENTSIGNAL_DATA_DIR="+filepath.Join(c.dir, "node"+strconv.Itoa(i)))
	if partitions > 0 {
		env = append(env, "AGENTSIGNAL_PARTITIONS="+strconv.Itoa(partitions))
	}
	return c.serve(ctx, env...)
}

// run sends rate runs a second to some nodes for a window, and returns how many were answered. The nodes have the same
// share and take turns, so that the cluster gets a run at a time, as one node does.
func (c *cluster) run(ctx context.Context, nodes []*server, window time.Duration, rate float64) (int, error) {
	counts := make([]int, len(nodes))
	var group errgroup.Group
	for i, s := range nodes {
		group.Go(func() error {
			n := len(nodes)
			time.Sleep(time.Duration(float64(i) / rate * float64(time.Second)))
			_, taken, err := c.runLoad(s).run(ctx, nodesConnections/n, window, rate/float64(n))
			counts[i] = len(taken)
			return err
		})
	}
	err := group.Wait()
	all := 0
	for _, n := range counts {
		all += n
	}
	return all, err
}

// cost is what runs cost, in microseconds of CPU a run.
type cost struct {
	service, redis float64
	last           float64 // of the service, in the newest node
	runs           int
}

// measure returns what runs cost that are sent to the first of the nodes, after nodesSettle of them: a node that
// was idle does not collect garbage, or read its logs, as one at work does.
func (c *cluster) measure(ctx context.Context, rate float64, window time.Duration, nodes int) (m cost, err error) {
	if _, err := c.run(ctx, c.nodes[:nodes], nodesSettle, rate); err != nil {
		return m, err
	}
	total := func() (sum time.Duration, err error) {
		for _, s := range c.nodes {
			used, err := s.cpu()
			if err != nil {
				return 0, err
			}
			sum += used
		}
		return sum, nil
	}
	var all, ofRedis time.Duration
	ofLast, err := during(c.nodes[len(c.nodes)-1].cpu, func() (err error) {
		all, err = during(total, func() (err error) {
			ofRedis, err = during(c.redisCPU, func() (err error) {
				m.runs, err = c.run(ctx, c.nodes[:nodes], window, rate)
				return err
			})
			return err
		})
		return err
	})
	m.service, m.redis, m.last = microseconds(all, m.runs), microseconds(ofRedis, m.runs), microseconds(ofLast, m.runs)
	return m, err
}

// nodesBenchmark is the benchmark nodes.
type nodesBenchmark struct {
	*report
	rate float64 // runs a second of the whole cluster
}

// define implements adjustable.
func (b *nodesBenchmark) define(c *cobra.Command) {
	c.Flags().Float64Var(&b.rate, "rate", nodesRate, "runs a second of the whole cluster")
}

// measure measures what further nodes on the same Redis cost at a fixed rate of runs: nodes that
// share the runs and their deliveries, a node without requests that owns no partition, and an idle one.
func (b *nodesBenchmark) measure(ctx context.Context) error {
	for _, d := range []deliveredTo{{}, {streams: nodesStreams}, {webhooks: true}} {
		if err := b.sharedRuns(ctx, d); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return b.followers(ctx)
}

// deliveredTo is what the signals of runs are delivered to.
type deliveredTo struct {
	streams  int  // of all accounts together
	webhooks bool // one of each account
}

func (d deliveredTo) String() string {
	switch {
	case d.streams > 0:
		return fmt.Sprintf("runs, %d streams", d.streams)
	case d.webhooks:
		return "runs, webhooks"
	}
	return "runs"
}

// sharedRuns measures one to nodesMost nodes that share partitions, runs and deliveries.
func (b *nodesBenchmark) sharedRuns(ctx context.Context, d deliveredTo) (err error) {
	c, err := newCluster(ctx, 0)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	if d.webhooks {
		endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		c.stops.Add("endpoint", func(context.Context) error { endpoint.Close(); return nil })
		if err := c.registerAll(ctx, endpoint.URL, signal.SignalCreated); err != nil {
			return err
		}
	}
	var one cost
	for n := 1; n <= nodesMost; n++ {
		if err := c.addNode(ctx, 0); err != nil {
			return err
		}
		if err := c.runLoad(c.nodes[n-1]).warm(ctx); err != nil {
			return err
		}
		end, err := c.listen(ctx, d.streams)
		if err != nil {
			return err
		}
		m, err := c.measure(ctx, b.rate, b.window, n)
		end()
		if err != nil {
			return err
		}
		if n == 1 {
			one = m
		}
		b.row(fmt.Sprintf("%s, %.0f/s, nodes %d", d, b.rate, n), "%.0f us of CPU a run (%+.0f %%), Redis %.0f us (%+.0f %%)",
			m.service, 100*(m.service/one.service-1), m.redis, 100*(m.redis/one.redis-1))
	}
	return nil
}

// followers measures a node that owns no partition and gets no request, while others run.
func (b *nodesBenchmark) followers(ctx context.Context) (err error) {
	c, err := newCluster(ctx, nodesOwners)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for n := range nodesOwners {
		if err := c.addNode(ctx, nodesOwners); err != nil {
			return err
		}
		if err := c.runLoad(c.nodes[n]).warm(ctx); err != nil {
			return err
		}
	}
	without, err := c.measure(ctx, b.rate, b.window, nodesOwners)
	if err != nil {
		return err
	}
	if err := c.addNode(ctx, nodesOwners); err != nil {
		return err
	}
	idle, err := during(c.nodes[nodesOwners].cpu, func() error { time.Sleep(b.window); return nil })
	if err != nil {
		return err
	}
	with, err := c.measure(ctx, b.rate, b.window, nodesOwners)
	if err != nil {
		return err
	}
	share := 100 * idle.Seconds() / b.window.Seconds()
	b.row("a node without work", "%.1f %% of a core", share)
	b.row("a follower (target 20 us a run)", "%.0f us of CPU a run, without runs %.0f", with.last,
		microseconds(idle, with.runs))
	b.row("Redis for it (target 10 us a run)", "%+.0f us a run, of %.0f", with.redis-without.redis, without.redis)
	return nil
}
