package schedule

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store keeps the schedules. See persistence/schedules.
type Store interface {
	// DueSchedules returns at most limit schedules of a partition that are to run until
	// the given time, and when the first one after that is; zero: none is.
	DueSchedules(ctx context.Context, partition int, until time.Time, limit int) ([]signal.Schedule, time.Time, error)
	// MoveSchedule stores when a schedule runs next. KindConflict: "not_owner" under
	// another epoch, another code if it was changed since it was read.
	MoveSchedule(ctx context.Context, partition int, epoch int64, s signal.Schedule, next time.Time) error
	// RecordRound stores what came of a round. KindConflict under another epoch,
	// KindNotFound if the schedule was removed.
	RecordRound(ctx context.Context, partition int, epoch int64, s signal.Schedule, r signal.Round) error
}

// Agents run agents.
type Agents interface {
	// Run makes one run and returns when its outcome is stored. The error is a
	// *signal.RunError if it failed, else a *signal.Error.
	Run(ctx context.Context, req signal.RunRequest) error
}

// Signals counts signals.
type Signals interface {
	// Full says that an asset has as many open signals as a schedule may have, counting
	// those that were stored before the call.
	Full(ctx context.Context, s *signal.Schedule, asset string) (bool, error)
}

// Quota bounds the runs of accounts, those of schedules and of requests together.
type Quota interface {
	// TakeRun counts a run of the account, or reports that it may have none now.
	TakeRun(ctx context.Context, account signal.AccountID) bool
}

// Options are what a Node may be given beyond what it needs. The zero value works.
type Options struct {
	// Speed returns how many times as fast as real time the bars of an asset go by; nil:
	// all in real time.
	Speed   func(ctx context.Context, asset string) int64
	Quota   Quota            // nil: there is none
	Now     func() time.Time // by the clock of Redis; nil: time.Now
	Log     *slog.Logger     // nil: none
	Metrics *Metrics         // nil: none
}

// Node is what the schedules of all partitions of a process share. It is safe for
// concurrent use.
type Node struct {
	store   Store
	agents  Agents
	signals Signals
	quota   Quota
	speed   func(ctx context.Context, asset string) int64
	now     func() time.Time
	log     *slog.Logger
	metrics *Metrics
}

// unlimited is a Quota without a bound.
type unlimited struct{}

func (unlimited) TakeRun(context.Context, signal.AccountID) bool { return true }

// New returns a node that reads schedules from store, runs them by agents and knows by
// signals how many are open.
func New(store Store, agents Agents, signals Signals, o Options) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quota == nil {
		o.Quota = unlimited{}
	}
	if o.Speed == nil {
		o.Speed = func(context.Context, string) int64 { return 1 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Node{store: store, agents: agents, signals: signals, quota: o.Quota, speed: o.Speed, now: o.Now,
		log: o.Log.With("component", "schedule"), metrics: o.Metrics}
}

// Start implements ownership.Tenant: it starts the actor of a partition's schedules.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	produce := func() engine.Actor { return newSchedules(o) }
	return &follower{c.Spawn(engine.Other, "schedules", produce, engine.Supervision{})}
}

// follower notifies the schedules of a partition of their changes.
type follower struct{ actor engine.Ref }

// Follow implements ownership.Follower.
func (f *follower) Follow(events []signal.Event) {
	for i := range events {
		if events[i].Type == signal.ScheduleChanged {
			f.actor.Tell(pollDue{})
			return
		}
	}
}

// owned is a partition that this process owns. It does not change.
type owned struct {
	*Node
	ownership.Owned
	log *slog.Logger
}
