package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestTheAuditComparesEndsWithBars lets signals of the simulated market, whose minutes
// last a second, close by trades. The audit finds nothing, until a closing is stored at
// a price without a trade.
func TestTheAuditComparesEndsWithBars(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	config := e2e.TestConfig(t, redis.URL())
	config.Market.Source = "simulated"
	s := e2e.Start(t, config)
	trader, account := s.Account(t)
	for _, asset := range []string{"BTC", "ETH", "SOL"} {
		s.AwaitPrices(t, asset, signal.M1)
		for range 4 {
			trader.AwaitRun(asset, strategy.Momentum, `"timeframe":"1m"`, `"risk_level":"low"`)
		}
	}
	kept := trader.AwaitRun("SPY", strategy.Momentum, `"timeframe":"1d"`)
	operator := e2e.StoreOperator(t, redis.URL(), "")
	var report struct {
		Signals   int
		Closed    int
		Held      int `json:"ends_held_against_bars"`
		Differing []struct {
			ID          signal.SignalID `json:"signal_id"`
			Differences []backtest.Difference
		}
	}
	read := func(args ...string) error {
		out, err := operator.Try("", append([]string{"audit", "--json"}, args...)...)
		if e := json.Unmarshal([]byte(out), &report); e != nil {
			t.Fatalf("audit: %v: %s (%v)", e, out, err)
		}
		return err
	}
	e2e.Eventually(t, "ends are held against bars", func() bool {
		if err := read(); err != nil {
			t.Fatalf("the audit ends with %v: %+v", err, report)
		}
		return report.Held >= 6
	})
	if report.Signals != 13 || report.Closed < 6 {
		t.Errorf("the audit reports %+v", report)
	}

	var open *signal.Signal
	store := s.Store()
	p := store.Client.Partition(account.ID)
	if err := store.Signals.EachSignal(t.Context(), p, func(other *signal.Signal) error {
		if string(other.ID) == kept.ID {
			open = other
		}
		return nil
	}); err != nil || open == nil {
		t.Fatal(open, err)
	}
	lost := strategy.Close(open, strategy.Exit{Reason: signal.StopLoss,
		Price: open.Levels.Stop * map[signal.Direction]float64{signal.Long: .9, signal.Short: 1.1}[open.Direction]},
		time.Now().UTC().Truncate(time.Millisecond))
	open.Closing, open.Metadata, open.Sequence = &lost, nil, open.Sequence+1
	if _, err := s.Events().Append(t.Context(), signal.Change{Account: account.ID, Signal: open,
		Events: []signal.Event{{Account: account.ID, Asset: open.Asset, Type: signal.SignalClosed,
			Data: []byte(`{}`)}}}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, "the false end is named", func() bool {
		err := read("--account", string(account.ID))
		return err != nil && len(report.Differing) == 1 && report.Differing[0].ID == open.ID &&
			report.Differing[0].Differences[0].Member == "exit_price"
	})
	if out, err := operator.Try("", "audit"); err == nil ||
		!strings.Contains(out, string(open.ID)+" SPY momentum, made ") || !strings.Contains(out, "  exit_price is ") {
		t.Errorf("the audit reports %s (%v)", out, err)
	}
}
