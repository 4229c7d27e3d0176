package checkpoints

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store keeps the logs. See leaves.Store of persistence.
type Store interface {
	// AppendLeaves appends the next leaves of a partition, and returns how many and whether
	// there may be more.
	AppendLeaves(ctx context.Context, partition int, epoch int64) (n int, more bool, err error)
	CountLeaves(ctx context.Context) (int64, error)
	LogHeads(ctx context.Context) ([]tlog.Tree, error)
	// LogConsistency returns the proofs that the logs of c begin with so many leaves.
	LogConsistency(ctx context.Context, sizes []int64, c *verify.Checkpoint) ([]tlog.TreeProof, error)
	Checkpoint(ctx context.Context) ([]byte, *verify.Checkpoint, error)
	StoreCheckpoint(ctx context.Context, epoch int64, signed []byte) error
}

// Options are the settings of a node.
type Options struct {
	Every     time.Duration // sign new leaves at most this late; default 10 seconds
	Retention time.Duration // of signals, for readers of checkpoints
	// Subscribers and Events publish checkpoints as events log.checkpoint. Without both nothing is
	// published.
	Subscribers Subscribers
	Events      EventLog
	Now         func() time.Time
	Log         *slog.Logger
	Metrics     *Metrics
}

// Node does the work in the partitions that a process owns.
type Node struct {
	store   Store
	keys    *record.Keys
	options Options
}

// New returns a node that signs with keys.
func New(store Store, keys *record.Keys, o Options) *Node {
	o.Every = cmp.Or(o.Every, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "checkpoints")
	return &Node{store: store, keys: keys, options: o}
}

// Start implements ownership.Tenant.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.options.Log.With("partition", p.Partition)}
	f := &follower{}
	appending := func() engine.Actor { return &appender{o: o, waiting: &f.waiting} }
	f.leaves = c.Spawn(engine.Other, "leaves", appending, engine.Supervision{})
	if n.options.Subscribers != nil && n.options.Events != nil {
		publishing := func() engine.Actor { return &publisher{o: o} }
		events := c.Spawn(engine.Other, "checkpointevents", publishing, engine.Supervision{})
		f.events = &events
	}
	if p.Partition == record.SigningPartition {
		signing := func() engine.Actor { return &signer{o: o} }
		c.Spawn(engine.Other, "checkpoints", signing, engine.Supervision{})
	}
	return f
}

// owned is a partition that this process owns. It does not change.
type owned struct {
	*Node
	ownership.Owned
	log *slog.Logger
}

// follower notifies the appender of new entries of the signal log, once until it appends them,
// and the publisher of changed webhooks.
type follower struct {
	leaves  engine.Ref
	waiting atomic.Bool
	events  *engine.Ref // nil without a publisher
}

// Follow implements ownership.Follower.
func (f *follower) Follow(events []signal.Event) {
	added, changed := false, false
	for i := range events {
		switch events[i].Type {
		case signal.SignalCreated, signal.SignalClosed:
			added = true
		case signal.WebhookChanged, signal.AccountDeleted:
			changed = true
		}
	}
	if added && !f.waiting.Swap(true) {
		f.leaves.Tell(entriesAdded{})
	}
	if changed && f.events != nil {
		f.events.Tell(webhooksChanged{})
	}
}

// Metrics counts leaves and shows the age of the newest checkpoint. A nil *Metrics does nothing.
type Metrics struct {
	leaves prometheus.Counter
	age    prometheus.Gauge
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		leaves: prometheus.NewCounter(prometheus.CounterOpts{Name: "agentsignal_record_leaves_total",
			Help: "Creations and closings of signals that this process has appended to the record."}),
		age: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentsignal_record_checkpoint_age_seconds",
			Help: "Age of the newest signed checkpoint of the record, or how long none could be signed if that is longer, " +
				"in the process that signs; 0 in others."}),
	}
	r.MustRegister(m.leaves, m.age)
	return m
}

func (m *Metrics) appended(n int) {
	if m != nil {
		m.leaves.Add(float64(n))
	}
}

func (m *Metrics) aged(age time.Duration) {
	if m != nil {
		m.age.Set(max(age, 0).Seconds())
	}
}
