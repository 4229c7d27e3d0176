package lifecycle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store has the open signals. persistence.Store does.
type Store interface {
	// OpenSignals calls f for each open signal of a partition, without its metadata. One
	// may come twice. An error of f ends it.
	OpenSignals(ctx context.Context, partition int, f func(s signal.Signal, created signal.Position) error) error
	// OpenSignalsOf returns those of the named signals that are open.
	OpenSignalsOf(ctx context.Context, partition int, ids []signal.SignalID) ([]signal.Signal, error)
}

// Log appends events. The log of persistence does.
type Log interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Market tells of prices. market.Market does.
type Market interface {
	// Alert adds alerts to an asset. It waits.
	Alert(ctx context.Context, asset string, alerts []alerts.Alert) error
	// Unalert takes those of refs back. It does not wait.
	Unalert(asset string, refs ...engine.Ref)
	// RequestPrice requests alerts.LastPrice for the Ref of an alert. It does not wait.
	RequestPrice(asset string, ref engine.Ref)
}

// Forecasts tell how the weather behind a signal has turned. They do not wait.
type Forecasts interface {
	// Turned returns the likelihood, by the newest forecast that is known here, that the
	// anomaly is on the side of the direction, and by how much a likelihood of 1 moves a
	// confidence against one of 0. False: no forecast is known.
	Turned(strategy string, d signal.Direction, o *signal.Outlook) (likelihood, weight float64, ok bool)
}

// Options are what a Node may be given beyond what it needs. The zero value works.
type Options struct {
	Now     func() time.Time // by the clock of Redis; nil: time.Now
	Log     *slog.Logger     // nil: none
	Metrics *Metrics         // nil: none
	// Forecasts re-score weather signals; nil: they are re-scored by price alone.
	Forecasts Forecasts
}

// Node is what the signals of all partitions of a process share. It is safe for
// concurrent use.
type Node struct {
	store   Store
	events  Log
	market  Market
	options Options
	log     *slog.Logger

	mu      sync.Mutex
	parents map[engine.Ref]struct{} // of the signals of partitions
}

// New returns a node that reads signals from store, appends what becomes of them to
// events, and watches prices by prices.
func New(store Store, events Log, prices Market, o Options) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{store: store, events: events, market: prices, options: o, log: o.Log.With("component", "lifecycle"),
		parents: make(map[engine.Ref]struct{})}
}

// ForecastArrived has the signals re-scored that rest on the weather of a question, of
// which a new forecast is known here. It does not wait.
func (n *Node) ForecastArrived(strategy, commodity, region string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref := range n.parents {
		ref.Tell(forecastArrived{strategy, commodity, region})
	}
}

// join has the parent of a partition's signals told of forecasts, until leave.
func (n *Node) join(parent engine.Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.parents[parent] = struct{}{}
}

func (n *Node) leave(parent engine.Ref) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.parents, parent)
}

// Start implements ownership.Tenant: it starts the actors of a partition's signals.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	return &follower{c.Spawn(engine.Supervisor, "signals", func() engine.Actor { return newSignals(o) }, signalFailures)}
}

// follower notifies the signals of a partition of those that are new in the log.
type follower struct{ parent engine.Ref }

// Follow implements ownership.Follower.
func (f *follower) Follow(events []signal.Event) {
	var ids []signal.SignalID
	for i := range events {
		switch e := &events[i]; e.Type {
		case signal.SignalCreated:
			if e.Listing != nil {
				ids = append(ids, e.Listing.ID)
			}
		case signal.AccountDeleted:
			f.parent.Tell(accountDeleted{e.Account})
		}
	}
	if len(ids) > 0 {
		f.parent.Tell(created{ids})
	}
}

// owned is a partition that this process owns, as the actors below its owner see it.
// It does not change.
type owned struct {
	*Node
	ownership.Owned
	log *slog.Logger
}

func (n *Node) now() time.Time { return n.options.Now() }
