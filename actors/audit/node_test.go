package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// shelf fakes the store of results.
type shelf struct {
	at     time.Time
	runs   []time.Time
	failed error
	of     map[signal.AccountID][]byte
}

func (s *shelf) StoreAudits(_ context.Context, p int, at time.Time, results map[signal.AccountID][]byte) error {
	if s.failed != nil {
		return s.failed
	}
	if p == record.SigningPartition {
		s.at, s.of, s.runs = at, results, append(s.runs, time.Now())
	}
	return nil
}

func (s *shelf) Audit(_ context.Context, account signal.AccountID) (time.Time, []byte, error) {
	if s.at.IsZero() {
		return s.at, nil, signal.NotFound("audit")
	}
	return s.at, s.of[account], nil
}

func (s *shelf) AuditedAt(context.Context, int) (time.Time, error) {
	if s.at.IsZero() {
		return s.at, signal.NotFound("audit")
	}
	return s.at, nil
}

// owner owns the signing partition for a node.
type owner struct{ n *Node }

func (o *owner) Receive(c engine.Context) {
	if _, ok := c.Message().(engine.Started); ok {
		o.n.Start(c, ownership.Owned{Partition: record.SigningPartition})
	}
}

// own makes a process that owns the partition for d.
func own(t *testing.T, n *Node, d time.Duration) {
	t.Helper()
	sys := engine.NewSystem(engine.Options{})
	sys.Spawn(engine.Partition, "0", func() engine.Actor { return &owner{n} }, engine.Supervision{})
	time.Sleep(d)
	synctest.Wait()
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAuditsBySchedule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		results, from := &shelf{}, newStock(t)
		from.signals[3].Confidence, from.signals[3].Direction = .99, "sideways"
		metrics := NewMetrics(prometheus.NewRegistry())
		var log bytes.Buffer
		n := NewNode(
			from.sources(),
			results,
			NodeOptions{Every: 24 * time.Hour, Retention: 100 * time.Hour, Partitions: 1,
				PartitionOf: func(signal.AccountID) int { return 0 }, Metrics: metrics,
				Log: slog.New(slog.NewTextHandler(&log, nil))},
		)
		if _, err := n.Audit(t.Context(), "acc_1"); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("before the first audit: %v", err)
		}
		began := time.Now()
		own(t, n, time.Hour)
		if len(results.runs) != 1 || results.runs[0].Sub(began) < firstAfter {
			t.Fatalf("audits at %v", results.runs)
		}
		r, err := n.Audit(t.Context(), "acc_1")
		if err != nil || r.Signals != len(from.signals) || r.Total == 0 || *r.Differences[0].ID != from.signals[3].ID {
			t.Errorf("%+v %v", r, err)
		}
		first := `first="` + string(from.signals[3].ID) + ", pnl_percent: stored 1.7676, recomputed -1.7676"
		if !strings.Contains(log.String(), first) {
			t.Errorf("the log %s does not contain %s", log.String(), first)
		}
		if got := testutil.ToFloat64(metrics.differences.WithLabelValues("signal")); got != 1 {
			t.Errorf("the metric has %v", got)
		}
		if r, err := n.Audit(t.Context(), "acc_2"); err != nil || r.Signals != 0 || r.Differences == nil {
			t.Errorf("of an account without signals: %+v %v", r, err)
		}
		own(t, n, 20*time.Hour) // a new owner does not audit again before the time
		if len(results.runs) != 1 {
			t.Errorf("audits at %v", results.runs)
		}
		results.failed = errors.New("down")
		own(t, n, 4*time.Hour)
		results.failed = nil
		own(t, n, 49*time.Hour)
		if len(results.runs) != 4 {
			t.Errorf("audits at %v", results.runs)
		}
	})
}

// An audit that does not finish stays due, for a new owner as well.
func TestAnAuditIsDueUntilItHasFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, metrics := &shelf{failed: errors.New("down")}, NewMetrics(prometheus.NewRegistry())
		n := NewNode(new(stock).sources(), results, NodeOptions{Every: 24 * time.Hour, Retention: 100 * time.Hour,
			Partitions: 1, PartitionOf: func(signal.AccountID) int { return 0 }, Metrics: metrics})
		began := time.Now()
		// due returns when an audit is due, after a new owner has had some time.
		due := func(d time.Duration) (due time.Duration) {
			time.AfterFunc(d-time.Second, func() {
				due = time.UnixMilli(int64(testutil.ToFloat64(metrics.due) * 1000)).Sub(began).Round(time.Minute)
			})
			own(t, n, d)
			return due
		}
		if got, want := due(time.Hour), firstAfter; got != want {
			t.Errorf("the first audit, which fails, is due after %s, want %s", got, want)
		}
		if got := testutil.ToFloat64(metrics.due); got != 0 {
			t.Errorf("in a process that does not audit it is due at %v", got)
		}
		results.failed = nil
		next := time.Hour + firstAfter + 24*time.Hour
		if got := due(time.Hour); got != next {
			t.Errorf("after an audit the next one is due after %s, want %s", got, next)
		}
		results.failed = errors.New("down")
		if got := due(24 * time.Hour); got != next {
			t.Errorf("while it fails, it is due after %s, want %s", got, next)
		}
	})
}

func FuzzResult(f *testing.F) {
	stored, _ := json.Marshal(newResult(newReport(), time.UnixMilli(0)))
	f.Add(stored)
	f.Add([]byte(`{"differences":null}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		if r, err := decodeResult(stored); err == nil && (r.Differences == nil || r.Shifts == nil ||
			r.NotRecomputed == nil || r.NotCompared == nil) {
			t.Errorf("%+v", r)
		}
	})
}
