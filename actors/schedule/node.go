package schedule

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Store reads and moves schedules. Package persistence/schedules implements it.
type Store interface {
	// DueSchedules returns at most limit schedules of a partition that are due by the given
	// time, and the time of the first later one, or zero.
	DueSchedules(ctx context.Context, partition int, until time.Time, limit int) ([]signal.Schedule, time.Time, error)
	// MoveSchedule stores the next time of a schedule. It returns KindConflict with code
	// "not_owner" under another epoch, and with another code if the schedule has changed
	// since it was read.
	MoveSchedule(ctx context.Context, partition int, epoch int64, s signal.Schedule, next time.Time) error
	// RecordRound stores the result of a round. It returns KindConflict under another epoch,
	// and KindNotFound if the schedule was removed.
	RecordRound(ctx context.Context, partition int, epoch int64, s signal.Schedule, r signal.Round) error
}

// Agents runs agents.
type Agents interface {
	// Run runs an agent once and returns when the outcome is stored. The error is a
	// *signal.RunError if the run failed, else a *signal.Error.
	Run(ctx context.Context, req signal.RunRequest) error
}

// Signals counts signals.
type Signals interface {
	// Full reports whether an asset has as many open signals as the schedule allows,
	// counting all that were stored before the call.
	Full(ctx context.Context, s *signal.Schedule, asset string) (bool, error)
}

// Quota bounds the runs of accounts, of schedules and requests together.
type Quota interface {
	// TakeRun reports whether the account has a run left, and counts it.
	TakeRun(ctx context.Context, account signal.AccountID) bool
}

// Options are the optional settings of a Node. The zero value works.
type Options struct {
	// Speed returns how many times faster than real time the bars of an asset close; nil
	// for real time.
	Speed   func(ctx context.Context, asset string) int64
	Quota   Quota            // nil for unlimited runs
	Now     func() time.Time // by the clock of Redis; default time.Now
	Log     *slog.Logger     // nil to discard
	Metrics *Metrics         // nil to count nothing
}

// Node holds what the schedules of all partitions of a process share. It is safe for
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

// New returns a node that runs the schedules of store by agents, and counts open signals by
// signals.
func New(store Store, agents Agents, signals Signals, o Options) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Speed == nil {
		o.Speed = func(context.Context, string) int64 { return 1 }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Node{
		store:   store,
		agents:  agents,
		signals: signals,
		quota:   o.Quota,
		speed:   o.Speed,
		now:     o.Now,
		log:     o.Log.With("component", "schedule"),
		metrics: o.Metrics,
	}
}

// Start implements ownership.Tenant.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	o := &owned{Node: n, Owned: p, log: n.log.With("partition", p.Partition)}
	produce := func() engine.Actor { return newSchedules(o) }
	return &follower{c.Spawn(engine.Other, "schedules", produce, engine.Supervision{})}
}

// follower notifies the actor of a partition's schedules of changes to them and of deleted accounts.
type follower struct{ actor engine.Ref }

// Follow implements ownership.Follower.
func (f *follower) Follow(events []signal.Event) {
	changed := false
	for i := range events {
		switch e := &events[i]; e.Type {
		case signal.ScheduleChanged:
			changed = true
		case signal.AccountDeleted:
			f.actor.Tell(accountDeleted{e.Account})
		}
	}
	if changed {
		f.actor.Tell(pollDue{})
	}
}

// owned is a partition that this process owns. It does not change.
type owned struct {
	*Node
	ownership.Owned
	log *slog.Logger
}

// Metrics counts the runs of schedules. A nil *Metrics counts nothing.
type Metrics struct{ runs *prometheus.CounterVec }

// Outcomes of the runs of a round, the values of the label "result".
const (
	runCompleted = "completed"
	runError     = "error"
	runFull      = "full"    // not started: the asset has max_open open signals
	runSkipped   = "skipped" // not started: the account's quota of runs is used up
)

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_scheduled_runs_total",
		Help: "Runs that were due by schedules, by result: completed, error, full where enough signals are open, " +
			"or skipped for want of quota."}, []string{"result"})}
	r.MustRegister(m.runs)
	for _, result := range []string{runCompleted, runError, runFull, runSkipped} {
		m.runs.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) count(result string, n int) {
	if m != nil {
		m.runs.WithLabelValues(result).Add(float64(n))
	}
}
