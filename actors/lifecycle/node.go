package lifecycle

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store reads the open signals. signals.Store implements it.
type Store interface {
	// LastEvent returns the position of the newest event of a partition, or zero.
	LastEvent(ctx context.Context, partition int) (signal.Position, error)
	// OpenSignals calls f for each open signal of a partition, without its metadata,
	// possibly twice, until f returns an error.
	OpenSignals(ctx context.Context, partition int, f func(s signal.Signal, created signal.Position) error) error
	// OpenSignalsOf returns those of the named signals that are open.
	OpenSignalsOf(ctx context.Context, partition int, ids []signal.SignalID) ([]signal.Signal, error)
}

// Log appends events. The log of persistence implements it.
type Log interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Market watches prices. market.Alerting implements it.
type Market interface {
	// Alert adds alerts to an asset. It waits.
	Alert(ctx context.Context, asset string, alerts []alerts.Alert) error
	// Unalert removes the alerts of refs. It does not wait.
	Unalert(asset string, refs ...engine.Ref)
	// RequestPrice sends the last price to ref if it has an alert. It does not wait.
	RequestPrice(asset string, ref engine.Ref)
}

// Forecasts returns the newest forecast behind a signal, without waiting.
type Forecasts interface {
	// Turned returns the likelihood that the anomaly is on the side of the direction, and
	// the difference of confidence between a likelihood of 1 and of 0. ok is false if this
	// process knows no forecast.
	Turned(strategy string, d signal.Direction, o *signal.Outlook) (likelihood, weight float64, ok bool)
}

// Options are the optional settings of a Node. The zero value works.
type Options struct {
	Now       func() time.Time // by the clock of Redis; default time.Now
	Log       *slog.Logger     // nil to discard
	Metrics   *Metrics         // nil to count nothing
	Forecasts Forecasts        // nil to re-score weather signals by price alone
}

// Node holds what the signals of all partitions of a process share. It is safe for
// concurrent use.
type Node struct {
	store   Store
	events  Log
	market  Market
	options Options
	log     *slog.Logger

	mu      sync.Mutex
	parents map[engine.Ref]struct{} // the actors of type signals
}

// New returns a node that reads signals from store, watches prices in market, and appends
// updates and closings to events.
func New(store Store, events Log, market Market, o Options) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Node{
		store:   store,
		events:  events,
		market:  market,
		options: o,
		log:     o.Log.With("component", "lifecycle"),
		parents: make(map[engine.Ref]struct{}),
	}
}

// ForecastArrived re-scores the signals based on a forecast that has changed. It does not
// wait.
func (n *Node) ForecastArrived(strategy, commodity, region string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ref := range n.parents {
		ref.Tell(forecastArrived{strategy, commodity, region})
	}
}

// join notifies the parent of a partition's signals of forecasts until leave.
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

// Start implements ownership.Tenant.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	produce := func() engine.Actor { return newSignals(o) }
	return &follower{c.Spawn(engine.Supervisor, "signals", produce, signalFailures)}
}

// follower notifies the parent of a partition's signals of new signals, requested exits and deleted accounts.
type follower struct{ parent engine.Ref }

// Follow implements ownership.Follower.
func (f *follower) Follow(events []signal.Event) {
	var list []*signal.Event
	for i := range events {
		switch e := &events[i]; e.Type {
		case signal.SignalCreated:
			if e.Listing != nil {
				list = append(list, e)
			}
		case signal.ExitRequested:
			list = append(list, e)
		case signal.AccountDeleted:
			if len(list) > 0 { // in the order of the log: they may be the account's
				f.parent.Tell(created{list})
				list = nil
			}
			f.parent.Tell(accountDeleted{e.Account})
		}
	}
	if len(list) > 0 {
		f.parent.Tell(created{list})
	}
}

// owned is a partition that this process owns. It does not change.
type owned struct {
	*Node
	ownership.Owned
	log *slog.Logger
}

func (n *Node) now() time.Time { return n.options.Now() }
