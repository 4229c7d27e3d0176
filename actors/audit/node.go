package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Results keeps the results of audits. See audits.Store of persistence.
type Results interface {
	StoreAudits(ctx context.Context, partition int, at time.Time, results map[signal.AccountID][]byte) error
	// Audit returns nil for an account without a result; KindNotFound: there was no audit yet.
	Audit(ctx context.Context, account signal.AccountID) (at time.Time, result []byte, err error)
	AuditedAt(ctx context.Context, partition int) (time.Time, error)
}

const (
	// firstAfter is the pause between a start and an audit that is due, at most.
	firstAfter = 5 * time.Minute
	// retryAfter is the pause after a failure, at most.
	retryAfter = 10 * time.Minute
	// idleShare is how long an audit pauses for the time that it works: it takes a fifth of one
	// processor at most. maxPause bounds a pause.
	idleShare = 4
	maxPause  = 2 * time.Second
	// maxSignals bounds what an audit by schedule holds in memory, about two kilobytes a signal.
	maxSignals = 100_000
)

// NodeOptions are the settings of a node.
type NodeOptions struct {
	Every       time.Duration // 0: no audits
	Retention   time.Duration // of signals
	Partitions  int
	PartitionOf func(signal.AccountID) int
	Now         func() time.Time
	Log         *slog.Logger
	Metrics     *Metrics
}

// Node audits all signals by a schedule, on the owner of record.SigningPartition: the signals of
// one bar share its evaluation, so that one pass over all partitions costs a fraction of one pass
// for each. It is a tenant by the contract of package ownership.
type Node struct {
	from    Sources
	results Results
	o       NodeOptions
}

// NewNode returns a node that reads from and keeps results.
func NewNode(from Sources, results Results, o NodeOptions) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "audit")
	return &Node{from, results, o}
}

// Audit returns what the last audit has found about an account. KindNotFound: there was none yet.
func (n *Node) Audit(ctx context.Context, account signal.AccountID) (Result, error) {
	at, stored, err := n.results.Audit(ctx, account)
	if err != nil {
		return Result{}, err
	}
	if stored == nil {
		return *newResult(newReport(), at), nil
	}
	return decodeResult(stored)
}

// Start implements ownership.Tenant.
func (n *Node) Start(c engine.Context, p ownership.Owned) ownership.Follower {
	if n.o.Every > 0 && p.Partition == record.SigningPartition {
		c.Spawn(engine.Other, "audit", func() engine.Actor { return &auditing{n: n} }, engine.Supervision{})
	}
	return noEvents{}
}

type noEvents struct{}

// Follow implements ownership.Follower.
func (noEvents) Follow([]signal.Event) {}

// Messages of the actor to itself.
type (
	auditDue   struct{}
	auditKnown struct {
		last time.Time // zero: there was none
		err  error
	}
	auditDone struct {
		result *Result
		err    error
	}
)

// auditing is the actor that audits.
type auditing struct{ n *Node }

// Receive implements engine.Actor.
func (a *auditing) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		c.Go(func(ctx context.Context) any {
			last, err := a.n.results.AuditedAt(ctx, record.SigningPartition)
			if signal.KindOf(err) == signal.KindNotFound {
				err = nil
			}
			return auditKnown{last, err}
		})
	case auditKnown:
		a.onKnown(c, m)
	case auditDue:
		c.Go(func(ctx context.Context) any {
			result, err := a.n.run(ctx)
			return auditDone{result, err}
		})
	case auditDone:
		a.onAudited(c, m)
	case engine.Stopping, engine.Restarting:
		a.n.o.Metrics.ended()
	}
}

func (a *auditing) onKnown(c engine.Context, m auditKnown) {
	wait := min(firstAfter, a.n.o.Every)
	due := a.n.o.Now().Add(wait)
	if m.err != nil {
		a.n.o.Log.Warn("the time of the last audit is not known", "err", m.err)
	} else if !m.last.IsZero() {
		a.n.o.Metrics.ran(m.last, nil)
		due = m.last.Add(a.n.o.Every)
		wait = max(wait, due.Sub(a.n.o.Now()))
	}
	a.n.o.Metrics.next(due)
	c.After(wait, auditDue{})
}

func (a *auditing) onAudited(c engine.Context, m auditDone) {
	wait := a.n.o.Every
	if m.err == nil {
		a.n.o.Metrics.next(a.n.o.Now().Add(wait))
	}
	switch log := a.n.o.Log; {
	case m.err != nil:
		wait = min(retryAfter, wait)
		log.Warn("the audit did not finish", "err", m.err)
	case m.result.Total > 0:
		log.Error("signals differ from what is recomputed: see agentsignal audit",
			"differences", m.result.Total, "first", m.result.Differences[0].String())
	default:
		log.Info("signals were audited")
	}
	c.After(wait, auditDue{})
}

// run audits all signals, and stores the results for each account. It returns that for all.
func (n *Node) run(ctx context.Context) (*Result, error) {
	at := n.o.Now()
	since, err := n.results.AuditedAt(ctx, record.SigningPartition)
	if signal.KindOf(err) == signal.KindNotFound {
		since, err = at.Add(-n.o.Every), nil
	}
	if err != nil {
		return nil, err
	}
	o := Options{Kept: KeptSince(at, n.o.Retention), ClosedSince: since, MaxSignals: maxSignals,
		Pause: pacer()}
	for p := range n.o.Partitions {
		o.Partitions = append(o.Partitions, p)
	}
	all, accounts, err := Run(ctx, n.from, o)
	if err != nil {
		return nil, err
	}
	results := make([]map[signal.AccountID][]byte, n.o.Partitions)
	for p := range results {
		results[p] = map[signal.AccountID][]byte{}
	}
	for account, r := range accounts {
		stored, err := json.Marshal(newResult(r, at))
		if err != nil {
			return nil, err
		}
		results[n.o.PartitionOf(account)][account] = stored
	}
	// The one that knows when the last audit was comes last.
	for p := n.o.Partitions - 1; p >= 0; p-- {
		if err := n.results.StoreAudits(ctx, p, at, results[p]); err != nil {
			return nil, err
		}
	}
	n.o.Metrics.ran(at, all)
	return newResult(all, at), nil
}

// KeptSince returns from when on signals must be stored, some time after the retention, since
// others may be trimmed while an audit reads.
func KeptSince(now time.Time, retention time.Duration) time.Time {
	return now.Add(min(time.Hour, retention/2) - retention)
}

// pacer returns a pause for Options, in proportion to the time since the last one.
func pacer() func(context.Context) error {
	last := time.Now()
	return func(ctx context.Context) error {
		timer := time.NewTimer(min(maxPause, idleShare*time.Since(last)))
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		last = time.Now()
		return ctx.Err()
	}
}

// Metrics counts what differs. A nil *Metrics does nothing.
type Metrics struct {
	differences *prometheus.CounterVec
	last, due   prometheus.Gauge
}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		differences: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentsignal_audit_differences_total",
			Help: "Differences that audits by schedule have found, in each one again."}, []string{"kind"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentsignal_audit_last_run_timestamp_seconds",
			Help: "Time of the last finished audit, in the process that audits; 0 in others."}),
	}
	m.due = prometheus.NewGauge(prometheus.GaugeOpts{Name: "agentsignal_audit_due_timestamp_seconds",
		Help: "When an audit is due, or has been since, in the process that audits; 0 in others."})
	r.MustRegister(m.differences, m.last, m.due)
	m.count(newReport())
	return m
}

// count adds the differences of a report.
func (m *Metrics) count(r *Report) {
	m.differences.WithLabelValues("signal").Add(float64(len(r.Differing)))
	m.differences.WithLabelValues("record").Add(float64(len(r.Record.Differing)))
	m.differences.WithLabelValues("mean").Add(float64(r.systematic()))
}

// ran records an audit, whose report is nil if another process made it.
func (m *Metrics) ran(at time.Time, r *Report) {
	if m == nil {
		return
	}
	m.last.Set(float64(at.UnixMilli()) / 1000)
	if r != nil {
		m.count(r)
	}
}

// next records when an audit is due.
func (m *Metrics) next(due time.Time) {
	if m != nil {
		m.due.Set(float64(due.UnixMilli()) / 1000)
	}
}

// ended records that another process audits from now on.
func (m *Metrics) ended() {
	if m != nil {
		m.last.Set(0)
		m.due.Set(0)
	}
}
