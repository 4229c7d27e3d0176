package service

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// published are the confidences of a signal: in the answer of its run and at its end.
type published struct{ initial, final float64 }

// closeAll publishes a new confidence of each signal and closes it, as its owner does. Those
// that win end with a high confidence, those that lose with a low one.
func (s *service) closeAll(t *testing.T, account signal.AccountID, made []wireSignal) map[string]published {
	t.Helper()
	random := rand.New(rand.NewPCG(11, 0))
	all := make(map[string]published)
	for i, w := range made {
		exit, reason, final := *w.Target, signal.TakeProfit, .95
		switch random.IntN(5) {
		case 0, 1, 2:
			exit, reason, final = *w.Stop, signal.StopLoss, .05
		case 3:
			exit, reason, final = *w.Entry, signal.Expired, .3
		}
		all[w.ID] = published{w.Confidence, final}
		s.change(t, account, w.ID, signal.SignalUpdated, `{}`, func(s *signal.Signal) {
			s.Confidence, s.FirstConfidence = final, s.FirstConfidence+.03 // as after a new forecast
			s.MFE, s.MAE = random.Float64(), -random.Float64()
		})
		s.change(t, account, w.ID, signal.SignalClosed, `{}`, func(s *signal.Signal) {
			at := s.CreatedAt.Add(time.Duration(i+1) * time.Minute)
			closing := strategy.Close(s, strategy.Exit{Reason: reason, Price: exit}, at)
			s.Closing = &closing
		})
	}
	return all
}

// outcome returns the outcome of a closed signal from what the API shows of it. cost is that
// of an entry or an exit as a share of its price.
func (w *wireState) outcome(t *testing.T, cost float64) backtest.Outcome {
	t.Helper()
	closed, err := time.Parse(signal.TimeLayout, *w.ClosedAt)
	if err != nil {
		t.Fatal(err)
	}
	risk := *w.Entry - *w.Stop
	if w.Direction == "short" {
		risk = -risk
	}
	return backtest.Outcome{
		At:         closed.UnixMilli(),
		R:          *w.R,
		Cost:       cost * (*w.Entry + *w.Exit) / risk,
		Confidence: w.Initial,
		Minutes:    int64(*w.Minutes),
		MFE:        *w.MFE,
		MAE:        *w.MAE,
		Reason:     signal.CloseReason(*w.Reason),
	}
}

// TestScorecardIsRebuiltFromSignals closes signals and computes the scorecard from what
// GET /v1/signals/{id} shows. The node that the signals were made on, one that follows it, and
// one that starts afterwards show the same.
func TestScorecardIsRebuiltFromSignals(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	node := func() *service {
		c := testConfig(t, redis.URL())
		c.Cluster = true
		c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(sharedKeys), configs.Secret(sharedKeys)
		c.Security.RecordKeys = configs.Secret(sharedRecordKey(t))
		return start(t, c)
	}
	s, follower := node(), node()
	prices := newMarket(t, redis.Client())
	trader, account := s.account(t)
	var made []wireSignal
	for i, asset := range []string{"ACME", "GLOBEX"} {
		prices.give(asset, signal.H1, wander(uint64(i+1), 400, time.Now().Truncate(time.Hour))...)
		s.awaitPrices(t, asset, signal.H1)
		for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
			for j := range 2 * len(signal.RiskLevels) {
				risk := fmt.Sprintf(`"risk_level":%q`, signal.RiskLevels[j%len(signal.RiskLevels)])
				made = append(made, decode[wireSignal](t,
					trader.post("/v1/agents/trading/run", runBody(asset, name, risk)).ok(t).Body))
			}
		}
	}
	following := trader.at(follower.url)
	if n := following.signals("status=open").Total; n != len(made) {
		t.Fatalf("%d signals are open, want %d", n, len(made))
	}
	all := s.closeAll(t, account.ID, made)

	later := node()
	for name, c := range map[string]*client{"owner": trader, "follower": following, "later": trader.at(later.url)} {
		checkClosed(t, name, c, all)
	}
}

// checkClosed checks what a node shows of closed signals, in lists, one by one, and in the
// scorecard.
func checkClosed(t *testing.T, node string, c *client, all map[string]published) {
	t.Helper()
	listed := c.signals("status=closed&limit=100")
	if len(listed.Signals) != len(all) {
		t.Fatalf("%s: %d signals are listed as closed, want %d", node, len(listed.Signals), len(all))
	}
	var outcomes []backtest.Outcome
	atLeast := 0 // with an initial confidence of .41 or more
	for _, l := range listed.Signals {
		want, got := all[l.ID], c.state(l.ID)
		if want.initial >= .41 {
			atLeast++
		}
		if l.Confidence != want.initial || got.Confidence != want.initial || got.Initial != want.initial ||
			got.Final == nil || *got.Final != want.final {
			t.Errorf("%s: %s is listed with %v and shown as %s, want %+v", node, l.ID, l.Confidence,
				jsonOf(t, got), want)
		}
		const cost = .001 // of an asset of an unknown class
		outcomes = append(outcomes, got.outcome(t, cost))
	}
	for minimum, want := range map[string]int{"0.7": 0, "0.41": atLeast, "0": len(all)} {
		if got := c.signals("status=closed&limit=1&min_confidence=" + minimum).Total; got != want {
			t.Errorf("%s: %d closed signals have a confidence of %s or more, want %d", node, got, minimum, want)
		}
	}
	slices.Reverse(outcomes) // the list is newest first
	rebuilt := jsonOf(t, backtest.Summarize(outcomes))
	card := decode[struct{ Statistics json.RawMessage }](t, c.get("/v1/scorecard").ok(t).Body)
	if !same(string(card.Statistics), rebuilt) {
		t.Errorf("%s: the scorecard is %s, rebuilt it is %s", node, card.Statistics, rebuilt)
	}
}
