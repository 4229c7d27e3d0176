package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestRemovedLosersAreNamed removes 20 losers from the signal log. The audit by schedule, the
// command and the metric name what is missing.
func TestRemovedLosersAreNamed(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := testConfig(t, redis.URL())
	config.Audit.Every = configs.Duration(time.Second)
	s := start(t, config)
	prices := newMarket(t, redis.Client())
	trader, account := s.account(t)
	bars := wander(1, 1200, time.Now().Truncate(time.Hour))
	prices.give("WALK", signal.H1, bars...)
	eventually(t, "the bars are seen", func() bool {
		seen, err := s.process.market.Series(t.Context(), "WALK", signal.H1)
		return err == nil && seen.Bars[len(seen.Bars)-1] == bars[len(bars)-1]
	})
	const made = 60
	shorts := 0
	for i := range made {
		name := []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}[i%3]
		run := trader.tryRun("walk", name, `"timeframe":"1h"`,
			fmt.Sprintf(`"risk_level":%q`, signal.RiskLevels[i/3%3])).ok(t)
		if decode[madeSignal](t, run.Body).Direction == signal.Short {
			shorts++
		}
	}
	price := "190.5" // shorts lose
	if shorts < made/2 {
		price = "20.5"
	}
	for range 3 {
		prices.tick("WALK", price)
	}
	audited := func(ok func(audit.Result) bool) func() bool {
		return func() bool {
			a := trader.get("/v1/audit")
			return a.Status == 200 && ok(decode[audit.Result](t, a.Body))
		}
	}
	eventually(t, "all are closed and audited", audited(func(r audit.Result) bool {
		if r.Total > 0 {
			t.Fatalf("untouched signals differ: %+v", r)
		}
		return r.Closed == made && r.Record.Closed == made && r.Recomputed == made
	}))
	operator := storeOperator(t, redis.URL(), "")
	operator.Do("audit", "--min-recomputed", "100%")
	_, err := operator.Try("", "audit", "--min-recomputed", "61")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 2") {
		t.Errorf("with too few: %v", err)
	}
	names := removeLosers(t, s, account.ID, 20)
	eventually(t, "the audit names them", audited(func(r audit.Result) bool {
		return r.Total == 40 && r.Record.Differ == 40 && strings.Contains(r.Differences[0].Recomputed, "is missing")
	}))
	wantReported(t, s, operator, names)
	other, _ := s.account(t)
	eventually(t, "another account sees its own", func() bool {
		r := decode[audit.Result](t, other.get("/v1/audit").ok(t).Body)
		return r.Signals == 0 && r.Total == 0 && r.At != ""
	})
	s.stop(t)
	s.log.Forget("signals differ from what is recomputed")
}

// wantReported checks that the command names what is missing, and that the metrics count it.
func wantReported(t *testing.T, s *service, operator commandtest.Operator, names []string) {
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
	text := s.client(t).get("/metrics").ok(t).Body
	if n := metricOf(text, "agentsignal_audit_differences_total", `kind="record"`); n < 40 {
		t.Errorf("the metric counts %v", n)
	}
	hourAgo := float64(time.Now().Add(-time.Hour).Unix())
	if at := metricOf(text, "agentsignal_audit_last_run_timestamp_seconds"); at < hourAgo {
		t.Errorf("the last audit was at %v", at)
	}
}

// removeLosers removes n signals that lost from the signal log, with their closings. It returns
// how the audit names their creations.
func removeLosers(t *testing.T, s *service, account signal.AccountID, n int) (names []string) {
	t.Helper()
	store := s.process.store
	p := store.Client.Partition(account)
	entries, err := store.Client.ReadRange(t.Context(), store.Client.SignalsKey(p), "-", "+", 10_000)
	must(t, err)
	created, number := map[signal.SignalID]signal.Position{}, map[signal.SignalID]int{}
	for _, e := range entries {
		if !codec.IsClosing(e.Header) {
			record, err := codec.DecodeRecord(e.Position, e.Header, nil)
			must(t, err)
			created[record.ID], number[record.ID] = e.Position, len(number)+1
			continue
		}
		c, err := codec.DecodeClosed(e.Position, e.Header)
		must(t, err)
		if c.Closing.Reason != signal.StopLoss || len(names) == n {
			continue
		}
		names = append(names, fmt.Sprintf("created number %d of %d of account %s is missing",
			number[c.ID], len(number), account))
		must(t, store.Client.RDB.XDel(t.Context(), store.Client.SignalsKey(p), e.Position.String(),
			created[c.ID].String()).Err())
	}
	if len(names) != n {
		t.Fatalf("only %d signals lost", len(names))
	}
	return names
}
