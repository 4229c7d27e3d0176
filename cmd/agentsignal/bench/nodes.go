package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

const (
	nodesMost        = 3
	nodesRate        = 700 // runs a second
	nodesConnections = 48  // of all nodes together
	// nodesOwners is also the number of partitions in the measurement of a follower: a further
	// node then owns none.
	nodesOwners = 2
	nodesSettle = 3 * time.Second // until partitions have moved and the market has started
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
		"AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS=" + setting(c.key), "AGENTSIGNAL_SECURITY_RECORD_KEYS=" + recordKey}
	return c, err
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

// run sends runs to some nodes, the same share to each, and returns how many were answered.
func (c *cluster) run(ctx context.Context, b *bench, nodes []*server) (int, error) {
	counts := make([]int, len(nodes))
	var group errgroup.Group
	for i, s := range nodes {
		group.Go(func() error {
			n := len(nodes)
			_, taken, err := c.runLoad(s).run(ctx, nodesConnections/n, b.window, b.runRate/float64(n))
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

// measure returns what runs cost that are sent to the first of the nodes.
func (c *cluster) measure(ctx context.Context, b *bench, nodes int) (m cost, err error) {
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
	redis := func() (time.Duration, error) { return processorTime(c.redis) }
	var all, ofRedis time.Duration
	ofLast, err := during(c.nodes[len(c.nodes)-1].cpu, func() (err error) {
		all, err = during(total, func() (err error) {
			ofRedis, err = during(redis, func() (err error) {
				m.runs, err = c.run(ctx, b, c.nodes[:nodes])
				return err
			})
			return err
		})
		return err
	})
	m.service, m.redis, m.last = microseconds(all, m.runs), microseconds(ofRedis, m.runs), microseconds(ofLast, m.runs)
	return m, err
}

// nodes measures what further nodes on the same Redis cost at a fixed rate of runs: nodes that
// share the runs, a node without requests that owns no partition, and an idle one.
func (b *bench) nodes(ctx context.Context) error {
	if err := b.sharedRuns(ctx); err != nil {
		return err
	}
	return b.followers(ctx)
}

// sharedRuns measures one to nodesMost nodes that share partitions and runs.
func (b *bench) sharedRuns(ctx context.Context) (err error) {
	c, err := newCluster(ctx, 0)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	var one cost
	for n := 1; n <= nodesMost; n++ {
		if err := c.addNode(ctx, 0); err != nil {
			return err
		}
		if err := b.warm(ctx, c.runLoad(c.nodes[n-1])); err != nil {
			return err
		}
		m, err := c.measure(ctx, b, n)
		if err != nil {
			return err
		}
		if n == 1 {
			one = m
		}
		b.row(fmt.Sprintf("nodes %d, %.0f runs/s", n, b.runRate), "%.0f us of CPU a run (%+.0f %%), Redis %.0f us (%+.0f %%)",
			m.service, 100*(m.service/one.service-1), m.redis, 100*(m.redis/one.redis-1))
	}
	return nil
}

// followers measures a node that owns no partition and gets no request, while others run.
func (b *bench) followers(ctx context.Context) (err error) {
	c, err := newCluster(ctx, nodesOwners)
	if err != nil {
		return err
	}
	defer c.end(ctx, &err)
	for n := range nodesOwners {
		if err := c.addNode(ctx, nodesOwners); err != nil {
			return err
		}
		if err := b.warm(ctx, c.runLoad(c.nodes[n])); err != nil {
			return err
		}
	}
	without, err := c.measure(ctx, b, nodesOwners)
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
	with, err := c.measure(ctx, b, nodesOwners)
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
