package backtest

import (
	"encoding/json"
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

// shifted returns a change of a number in the metadata, or of the first of a list.
func shifted(member string, by float64) func(*signal.Signal) {
	return func(s *signal.Signal) {
		var m map[string]any
		if err := json.Unmarshal(s.Metadata, &m); err != nil {
			panic(err)
		}
		switch x := m[member].(type) {
		case float64:
			m[member] = x + by
		case []any:
			x[0] = x[0].(float64) + by
		}
		s.Metadata, _ = json.Marshal(m)
	}
}

// TestAuditKnowsWhatWasStored recomputes signals that were made with outcomes of another
// asset: those that were stored at the time count, later ones do not.
func TestAuditKnowsWhatWasStored(t *testing.T) {
	t.Parallel()
	bars, others := walk(11, 1200), walk(12, 1200)
	o := testOptions(strategy.Momentum)
	o.From = bars[1010].CloseTime
	// The other asset wins by any entry, so that its outcomes are seen in the confidence.
	known, all := strategy.NewPool(0), strategy.NewPool(0)
	for i, b := range others[:1000] {
		x := strategy.Outcome{Bar: b.OpenTime, Ended: b.CloseTime, At: b.CloseTime,
			R: [2][3]int8{{30, 30, 30}, {30, 30, 30}}}
		known.Add("B", x)
		if all.Add("B", x); i%10 == 0 {
			x.At = bars[len(bars)-1].CloseTime + hour // it was stored after all signals
			all.Add("C", x)
		}
	}
	o.Pool, o.PoolKey = known, "A"
	r := run(t, bars, o)
	check := func(what string, a *Audit, differ bool) {
		t.Helper()
		for i := range r.Trades {
			v, err := a.Check(stored(&r.Trades[i], o))
			if err != nil || v.Reason != "" || has(v.Differences, "confidence") != differ {
				t.Errorf("%s, signal %d: %+v, %v", what, i, v, err)
			}
		}
	}
	check("with what was stored", NewAudit(o.Origin, o.Timeframe, bars).InPool(all, "A", true), false)
	check("with bars alone", NewAudit(o.Origin, o.Timeframe, bars), true)
	v, err := NewAudit(o.Origin, o.Timeframe, bars).InPool(all, "A", false).Check(stored(&r.Trades[0], o))
	if err != nil || !strings.Contains(v.Reason, "no longer stored") {
		t.Errorf("after outcomes were trimmed: %+v, %v", v, err)
	}
	older := stored(&r.Trades[0], o)
	older.Metadata = []byte(`{"break_even":0.4}`)
	if v, err := NewAudit(o.Origin, o.Timeframe, bars).Check(older); err != nil || v.Reason == "" {
		t.Errorf("a signal of an earlier version: %+v, %v", v, err)
	}
}

// TestAuditKnowsTheFirstOutcomes recomputes a signal of the first run on an asset, which had
// more bars than are still stored before it: the outcomes of those that are gone were stored
// after it.
func TestAuditKnowsTheFirstOutcomes(t *testing.T) {
	t.Parallel()
	const first, gone = 1499, 450
	bars := walk(11, first+60)
	o := testOptions(strategy.Momentum)
	o.From, o.To = bars[first].CloseTime, bars[first].CloseTime
	r := run(t, bars, o)
	pool := strategy.NewPool(0)
	series := strategy.NewSeries(o.Timeframe).InPool(strategy.NewPool(0), "A", func(x strategy.Outcome) {
		x.At = bars[first].CloseTime + 500
		pool.Add("A", x)
	})
	for _, b := range bars[:first+1] {
		if err := series.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	series.Resolve()
	v, err := NewAudit(o.Origin, o.Timeframe, bars[gone:]).InPool(pool, "A", true).Check(stored(&r.Trades[0], o))
	if err != nil || v.Reason != "" || len(v.Differences) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
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
		"metadata.break_even_net":          shifted("break_even_net", .01),
		"metadata.edge":                    shifted("edge", .01),
		"metadata.comparable_share":        shifted("comparable_share", .02),
		"cost of entry and exit in R":      shifted("expected_r_net", .001),
		"metadata.confidence_interval.low": shifted("confidence_interval", .01),
		"pnl_percent":                      func(s *signal.Signal) { *s.Closing.PnLPercent += .0001 },
		"pnl_absolute":                     func(s *signal.Signal) { *s.Closing.PnLAbsolute -= 1e-8 },
		"duration_minutes":                 func(s *signal.Signal) { s.Closing.DurationMinutes++ },
		"close_reason":                     func(s *signal.Signal) { s.Closing.Reason = "luck" },
		"closed_at":                        func(s *signal.Signal) { s.Closing.At = s.CreatedAt.Add(-time.Second) },
		"exit_price":                       func(s *signal.Signal) { s.Closing.ExitPrice = nil },
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

// TestSignalMayBeStoredLongAfterItsRun recomputes a signal that Redis stored 40 bars after its run began, as it does
// after it stood still.
func TestSignalMayBeStoredLongAfterItsRun(t *testing.T) {
	t.Parallel()
	const late = 40
	for name, pool := range map[string]*strategy.Pool{"alone": nil, "in a pool": strategy.NewPool(0)} {
		a, list := audited1200(t)
		if pool != nil {
			a.InPool(pool, "A", true)
		}
		first := *list[0]
		first.Closing, first.Run = nil, runAt(first.CreatedAt)
		first.CreatedAt = first.CreatedAt.Add(late * time.Hour)
		if v, err := a.Check(&first); err != nil || v.Reason != "" || len(v.Differences) > 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		changed := first
		changed.FirstConfidence += .01
		if v, err := a.Check(&changed); err != nil || !has(v.Differences, "confidence") {
			t.Errorf("%s, changed: %+v, %v", name, v, err)
		}
		later := first
		later.Run = runAt(later.CreatedAt)
		if v, err := a.Check(&later); err != nil || len(v.Differences) == 0 {
			t.Errorf("%s, of a run that began later: %+v, %v", name, v, err)
		}
		early := later
		early.Run = runAt(early.CreatedAt.AddDate(0, -1, 0))
		if v, err := a.Check(&early); err != nil || !v.FewBars {
			t.Errorf("%s, of a run that began before the bars: %+v, %v", name, v, err)
		}
		for _, s := range list {
			if s.CreatedAt.After(first.CreatedAt) {
				if v, err := a.Check(s); err != nil || v.Reason != "" || len(v.Differences) > 0 {
					t.Errorf("%s, after it: %+v, %v", name, v, err)
				}
			}
		}
	}
}

// runAt returns the identifier of a run that began at a time.
func runAt(at time.Time) signal.RunID {
	return signal.RunID(strings.Replace(string(signal.NewAccountIDAt(at)), "acc_", "run_", 1))
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
