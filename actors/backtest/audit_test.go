package backtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// stored returns a trade as a stored signal.
func stored(trade *Trade, o Options) *signal.Signal {
	l := trade.Levels
	created := time.UnixMilli(trade.CreatedAt + 137).UTC()
	s := &signal.Signal{ID: signal.NewSignalID(), Agent: "trading", Asset: o.Asset, Strategy: o.Strategy,
		Timeframe: o.Timeframe, Risk: o.Risk, Direction: trade.Direction, Confidence: trade.Confidence,
		FirstConfidence: trade.Confidence, Levels: &l, Metadata: trade.Metadata,
		CreatedAt: created, ExpiresAt: created.Add(trade.Lifetime)}
	if !trade.Open() {
		c := strategy.Close(s, trade.Exit, time.UnixMilli(trade.ClosedAt).UTC())
		s.Closing = &c
	}
	return s
}

// has reports whether one of the differences is of a member.
func has(found []Difference, member string) bool {
	return slices.ContainsFunc(found, func(d Difference) bool { return d.Member == member })
}

func audited1200(t *testing.T) (*Audit, []*signal.Signal) {
	t.Helper()
	bars := walk(11, 1200)
	o := testOptions(strategy.Momentum)
	o.From = bars[1010].CloseTime
	r := run(t, bars, o)
	var list []*signal.Signal
	for i := range r.Trades {
		list = append(list, stored(&r.Trades[i], o))
	}
	if len(list) < 5 {
		t.Fatalf("only %d signals", len(list))
	}
	return NewAudit(o.Origin, o.Timeframe, bars), list
}

func TestConsistentSignalsPassTheAudit(t *testing.T) {
	t.Parallel()
	a, list := audited1200(t)
	for _, s := range list {
		for range 2 { // a second signal of the same bar
			if v, err := a.Check(s); err != nil || v.Reason != "" || len(v.Differences) > 0 {
				t.Errorf("%s: %+v, %v", s.CreatedAt, v, err)
			}
		}
	}
}

func TestAuditReportsDifferences(t *testing.T) {
	t.Parallel()
	opposite := map[signal.Direction]signal.Direction{signal.Long: signal.Short, signal.Short: signal.Long}
	for member, change := range map[string]func(*signal.Signal){
		"direction":   func(s *signal.Signal) { s.Direction = opposite[s.Direction] },
		"confidence":  func(s *signal.Signal) { s.FirstConfidence += .01 },
		"stop_loss":   func(s *signal.Signal) { s.Levels.Stop -= .01 },
		"take_profit": func(s *signal.Signal) { s.Levels.Target += .01 },
		"metadata.values": func(s *signal.Signal) {
			s.Metadata = []byte(strings.Replace(string(s.Metadata), `"adx_14":`, `"adx_14":1`, 1))
		},
		"metadata.source": func(s *signal.Signal) {
			s.Metadata = []byte(strings.Replace(string(s.Metadata), `"source":"test"`, `"source":"x"`, 1))
		},
		"pnl_percent":      func(s *signal.Signal) { *s.Closing.PnLPercent += .0001 },
		"pnl_absolute":     func(s *signal.Signal) { *s.Closing.PnLAbsolute -= 1e-8 },
		"duration_minutes": func(s *signal.Signal) { s.Closing.DurationMinutes++ },
		"close_reason":     func(s *signal.Signal) { s.Closing.Reason = "luck" },
		"closed_at":        func(s *signal.Signal) { s.Closing.At = s.CreatedAt.Add(-time.Second) },
		"exit_price":       func(s *signal.Signal) { s.Closing.ExitPrice = nil },
	} {
		a, list := audited1200(t)
		s := list[1]
		change(s)
		v, err := a.Check(s)
		if found := append(CheckClosing(s), v.Differences...); err != nil || !has(found, member) {
			t.Errorf("changed %s: the audit reports %+v, %v", member, v, err)
		}
	}
}

// TestRunMayHaveUsedAnOlderBar checks that in compressed time a run may have used any bar
// that was not stale.
func TestRunMayHaveUsedAnOlderBar(t *testing.T) {
	t.Parallel()
	for compression, bars := range map[float64]int{1: auditLate, 3600: 11} {
		a, list := audited1200(t)
		o := a.origin
		o.Compression = compression
		a = NewAudit(o, signal.H1, a.bars)
		for _, late := range []int{bars - 1, bars} {
			s := *list[0]
			s.Closing = nil
			s.CreatedAt = s.CreatedAt.Add(time.Duration(late) * time.Hour)
			if v, err := a.Check(&s); err != nil || v.Reason != "" || (len(v.Differences) == 0) != (late < bars) {
				t.Errorf("at a speed of %v, %d bars late: %+v, %v", compression, late, v, err)
			}
		}
	}
}

func TestAuditReportsWhatItCannotRecompute(t *testing.T) {
	t.Parallel()
	a, list := audited1200(t)
	early := *list[0]
	early.CreatedAt = early.CreatedAt.Add(-30 * 24 * time.Hour)
	early.Closing = nil
	v, err := a.Check(&early)
	if err != nil || !strings.Contains(v.Reason, "bars before it") || len(v.Differences) > 0 {
		t.Errorf("too few bars: %+v, %v", v, err)
	}
	news := *list[0]
	news.Strategy = strategy.Sentiment
	if v, err := a.Check(&news); err != nil || v.Reason == "" {
		t.Errorf("sentiment: %+v, %v", v, err)
	}
}
