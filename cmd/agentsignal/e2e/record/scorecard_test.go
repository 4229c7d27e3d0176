package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestScorecardIsRebuiltFromSignals closes signals and computes the scorecard from what
// GET /v1/signals/{id} shows. The node that the signals were made on, one that follows it, and
// one that starts afterwards show the same.
func TestScorecardIsRebuiltFromSignals(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	node := func() *e2e.Service {
		c := e2e.TestConfig(t, redis.URL())
		c.Cluster = true
		c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(e2e.SharedKeys), configs.Secret(e2e.SharedKeys)
		c.Security.RecordKeys = configs.Secret(e2e.SharedRecordKey(t))
		return e2e.Start(t, c)
	}
	s, follower := node(), node()
	prices := e2e.NewMarket(t, redis.Client())
	trader, account := s.Account(t)
	var made []e2e.WireSignal
	for i, asset := range []string{"ACME", "GLOBEX"} {
		prices.Give(asset, signal.H1, wander(uint64(i+1), 400, time.Now().Truncate(time.Hour))...)
		s.AwaitPrices(t, asset, signal.H1)
		for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
			for j := range 2 * len(signal.RiskLevels) {
				risk := fmt.Sprintf(`"risk_level":%q`, signal.RiskLevels[j%len(signal.RiskLevels)])
				made = append(made, e2e.Decode[e2e.WireSignal](t,
					trader.Post("/v1/agents/trading/run", e2e.RunBody(asset, name, risk)).Ok(t).Body))
			}
		}
	}
	following := trader.At(follower.URL)
	if n := following.Signals("status=open").Total; n != len(made) {
		t.Fatalf("%d signals are open, want %d", n, len(made))
	}
	all := s.CloseAll(t, account.ID, made)

	later := node()
	for name, c := range map[string]*e2e.Client{"owner": trader, "follower": following, "later": trader.At(later.URL)} {
		checkClosed(t, name, c, all)
	}
}

// checkClosed checks what a node shows of closed signals, in lists, one by one, and in the
// scorecard.
func checkClosed(t *testing.T, node string, c *e2e.Client, all map[string]e2e.Published) {
	t.Helper()
	listed := c.Signals("status=closed&limit=100")
	if len(listed.Signals) != len(all) {
		t.Fatalf("%s: %d signals are listed as closed, want %d", node, len(listed.Signals), len(all))
	}
	var outcomes []backtest.Outcome
	atLeast := 0 // with an initial confidence of .41 or more
	for _, l := range listed.Signals {
		want, got := all[l.ID], c.State(l.ID)
		if want.Initial >= .41 {
			atLeast++
		}
		if l.Confidence != want.Initial || got.Confidence != want.Initial || got.Initial != want.Initial ||
			got.Final == nil || *got.Final != want.Final {
			t.Errorf("%s: %s is listed with %v and shown as %s, want %+v", node, l.ID, l.Confidence,
				e2e.JsonOf(t, got), want)
		}
		const cost = .001 // of an asset of an unknown class
		outcomes = append(outcomes, got.Outcome(t, cost))
	}
	for minimum, want := range map[string]int{"0.7": 0, "0.41": atLeast, "0": len(all)} {
		if got := c.Signals("status=closed&limit=1&min_confidence=" + minimum).Total; got != want {
			t.Errorf("%s: %d closed signals have a confidence of %s or more, want %d", node, got, minimum, want)
		}
	}
	slices.Reverse(outcomes) // the list is newest first
	rebuilt := e2e.JsonOf(t, backtest.Summarize(outcomes))
	card := e2e.Decode[struct{ Statistics json.RawMessage }](t, c.Get("/v1/scorecard").Ok(t).Body)
	if !e2e.Same(string(card.Statistics), rebuilt) {
		t.Errorf("%s: the scorecard is %s, rebuilt it is %s", node, card.Statistics, rebuilt)
	}
}
