package service

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence/agents"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// streamGrace is for the last events to reach the streams, of shutdownTimeout.
const streamGrace = 2 * time.Second

// newHub returns the hub of the connections of the stream.
func newHub(
	e environment, s *storage, system *engine.System, accounts *credentials.Authenticator, p *prices, lists *catalogue.Catalogue,
	own *agents.Store, readers *eventlog.ReaderConnections,
) *dashboard.Hub {
	c := e.config.Dashboard
	var others dashboard.OtherNodes
	if readers != nil {
		others = readers
	}
	hub := dashboard.NewHub(system, dashboard.Options{
		OtherNodes:     others,
		PartitionOf:    s.store.Client.Partition,
		Authenticator:  accounts,
		Follower:       s.tail.For(eventlog.Streams),
		Log:            eventLog{s.store.Logs, s.tail},
		Name:           p.market.Assets.Name,
		SuggestAssets:  lists.SuggestAssets,
		AgentNames:     own.Names,
		Prices:         p.last,
		Heartbeat:      time.Duration(c.Heartbeat),
		AuthTimeout:    time.Duration(c.AuthTimeout),
		QueueMessages:  c.QueueMessages,
		QueueBytes:     int(c.QueueBytes),
		MaxConnections: c.MaxConnections,
		MaxReaders:     5 * c.MaxConnections,
		ReplayMessages: c.ReplayMessages,
		ReplayAge:      time.Duration(c.ReplayAge),
		Now:            s.store.Client.Now,
		Logger:         e.log,
		Metrics:        dashboard.NewMetrics(e.registry),
	})
	e.stops.Add("late streams", hub.Close)
	e.stops.Add("streams", hub.Drain)
	e.stops.Add("events", within(streamGrace, func(ctx context.Context) error {
		if err := publishAll(ctx, s); err != nil {
			e.log.Warn("streams end before all events were published", "err", err)
		}
		return nil
	}))
	return hub
}

// subscribe subscribes the parts to the tail, which notifies them one after the other in the
// order of these calls:
//
//  1. credentials, so that a revoked key, an ended session or a deleted account is refused,
//     and no later event reaches it;
//  2. the streams, for which clients wait;
//  3. the lists;
//  4. the partitions, which process the effects of events and append more, once the node has joined
//     the installation: the tail does not run before that.
//
// After a rollback of Redis, results computed from lost events are dropped before partitions
// change owner. A gap follows, in which each part reads missed events again.
func subscribe(
	tail *eventlog.Tail, accounts *credentials.Authenticator, hub *dashboard.Hub, r *runs, cards *scorecard.Scorecards,
	own *agents.Store,
) {
	tail.Subscribe(func(_ int, events []signal.Event) { accounts.Forget(events) })
	tail.Subscribe(hub.Publish)
	tail.Subscribe(r.catalogue.Publish)
	tail.OnRollback(func(int) {
		cards.ForgetAll()
		r.skills.ForgetAll()
		r.outcomes.ForgetAll()
		own.ForgetAll()
	})
	tail.OnGap(func(n int) {
		accounts.ForgetAll()
		hub.Gap(n)
		r.catalogue.Gap(n)
	})
}

// publishAll waits until the streams have all events of answered requests. If that takes too
// long, clients read the rest from another node. Where no partition is followed, there is no stream.
func publishAll(ctx context.Context, s *storage) error {
	if !s.tail.Attached() {
		return nil
	}
	for n := range s.store.Client.Partitions() {
		if !s.tail.For(eventlog.Streams).Attached(n) {
			continue
		}
		head, err := s.tail.Head(ctx, n)
		if err == nil {
			err = s.tail.Wait(ctx, n, head)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventLog adapts the event log to dashboard.EventLog.
type eventLog struct {
	*eventlog.Store
	tail *eventlog.Tail
}

// Wait implements dashboard.EventLog.
func (l eventLog) Wait(ctx context.Context, partition int, p signal.Position) error {
	return l.tail.Wait(ctx, partition, p)
}
