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
	LogHeads(ctx context.Context) (*verify.Heads, error)
	// RootTree returns the edge of the root log that a stored checkpoint ends with.
	RootTree(ctx context.Context, head tlog.Tree) (*record.Tree, error)
	// Growth returns the proof that a checkpoint begins with an older one.
	Growth(ctx context.Context, older, newer *verify.Checkpoint) (*verify.Growth, error)
	// Checkpoint returns the newest one. KindNotFound before the first.
	Checkpoint(ctx context.Context) (*record.Signed, error)
	// StoreCheckpoint stores the next one, with what has changed of the root log.
	StoreCheckpoint(ctx context.Context, epoch int64, c *record.Signed, back *record.Rollback,
		pieces []record.Piece) error
	// Rollback returns the last rollback that an operator has accepted; nil without one.
	Rollback(ctx context.Context) (*record.Rollback, error)
}

// Options are the settings of a node.
type Options struct {
	Every     time.Duration // sign new leaves at most this late; default 10 seconds
	Retention time.Duration // of signals, for readers of checkpoints
	// Subscribers and Events publish checkpoints as events log.checkpoint. Without both nothing is
	// published.
	Subscribers Subscribers
	Events      EventLog
	// Witnesses with URLs are asked to sign checkpoints; nil for none. Ask posts a body to a URL.
	Witnesses *Witnesses
	Ask       func(ctx context.Context, url string, body []byte) (status int, answer []byte, err error)
	Keeper    Keeper // nil: what this node has seen is forgotten with the process
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   *Metrics
}

// Node does the work in the partitions that a process owns.
type Node struct {
	store   Store
	keys    *record.Keys
	options Options
	kept    *kept
}

// New returns a node that signs with keys.
func New(store Store, keys *record.Keys, o Options) *Node {
	o.Every = cmp.Or(o.Every, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "checkpoints")
	return &Node{store: store, keys: keys, options: o, kept: &kept{keeper: o.Keeper}}
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
		if w := n.options.Witnesses; w != nil {
			for key, url := range w.trusted.URLs() {
				asking := func() engine.Actor { return &cosigner{o: o, url: url} }
				c.Spawn(engine.Other, "witness "+key, asking, engine.Supervision{})
			}
		}
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
