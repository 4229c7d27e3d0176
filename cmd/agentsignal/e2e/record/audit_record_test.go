package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestRemovedLosersAreNamed removes 20 losers from the signal log. The audit by schedule, the
// command and the metric name what is missing.
func TestRemovedLosersAreNamed(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := e2e.TestConfig(t, redis.URL())
	config.Audit.Every = configs.Duration(time.Second)
	s := e2e.Start(t, config)
	prices := e2e.NewMarket(t, redis.Client())
	trader, account := s.Account(t)
	bars := wander(1, 1200, time.Now().Truncate(time.Hour))
	prices.Give("WALK", signal.H1, bars...)
	e2e.Eventually(t, "the bars are seen", func() bool {
		seen, err := s.Market().Series(t.Context(), "WALK", signal.H1)
		return err == nil && seen.Bars[len(seen.Bars)-1] == bars[len(bars)-1]
	})
	const made = 60
	shorts := 0
	for i := range made {
		name := []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}[i%3]
		run := trader.TryRun("walk", name, `"timeframe":"1h"`,
			fmt.Sprintf(`"risk_level":%q`, signal.RiskLevels[i/3%3])).Ok(t)
		if e2e.Decode[madeSignal](t, run.Body).Direction == signal.Short {
			shorts++
		}
	}
	price := "190.5" // shorts lose
	if shorts < made/2 {
		price = "20.5"
	}
	for range 3 {
		prices.Tick("WALK", price)
	}
	audited := func(ok func(audit.Result) bool) func() bool {
		return func() bool {
			a := trader.Get("/v1/audit")
			return a.Status == 200 && ok(e2e.Decode[audit.Result](t, a.Body))
		}
	}
	e2e.Eventually(t, "all are closed and audited", audited(func(r audit.Result) bool {
		if r.Total > 0 {
			t.Fatalf("untouched signals differ: %+v", r)
		}
		return r.Closed == made && r.Record.Closed == made && r.Recomputed == made
	}))
	operator := e2e.StoreOperator(t, redis.URL(), "")
	operator.Do("audit", "--min-recomputed", "100%")
	_, err := operator.Try("", "audit", "--min-recomputed", "61")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 2") {
		t.Errorf("with too few: %v", err)
	}
	names := e2e.RemoveLosers(t, s, account.ID, 20)
	e2e.Eventually(t, "the audit names them", audited(func(r audit.Result) bool {
		return r.Total == 40 && r.Record.Differ == 40 && strings.Contains(r.Differences[0].Recomputed, "is missing")
	}))
	wantReported(t, s, operator, names)
	other, _ := s.Account(t)
	e2e.Eventually(t, "another account sees its own", func() bool {
		r := e2e.Decode[audit.Result](t, other.Get("/v1/audit").Ok(t).Body)
		return r.Signals == 0 && r.Total == 0 && r.At != ""
	})
	s.Stop(t)
	s.Log.Forget("signals differ from what is recomputed")
}

// wantReported checks that the command names what is missing, and that the metrics count it.
func wantReported(t *testing.T, s *e2e.Service, operator commandtest.Operator, names []string) {
	t.Helper()
	out, err := operator.Try("", "audit")
	if err == nil || strings.Contains(err.Error(), "exit status") {
		t.Errorf("the audit ends with %v", err)
	}
	for _, name := range names {
		if !strings.Contains(out, name) {
			t.Errorf("the audit does not report %q: %s", name, out)
		}
	}
	text := s.Client(t).Get("/metrics").Ok(t).Body
	if n := e2e.MetricOf(text, "agentsignal_audit_differences_total", `kind="record"`); n < 40 {
		t.Errorf("the metric counts %v", n)
	}
	hourAgo := float64(time.Now().Add(-time.Hour).Unix())
	if at := e2e.MetricOf(text, "agentsignal_audit_last_run_timestamp_seconds"); at < hourAgo {
		t.Errorf("the last audit was at %v", at)
	}
}
