package http_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

func TestSummaryCountsByStatusAgentAndOutcome(t *testing.T) {
	t.Parallel()
	f := &fakes{counts: func(signal.AccountID) (map[signal.AgentID]catalogue.Count, error) {
		return map[signal.AgentID]catalogue.Count{"trading": {Open: 3, Closed: 9}, "seo": {Open: 1, Closed: 2}}, nil
	}}
	f.summary = func(account signal.AccountID, since time.Time) (scorecard.Summary, error) {
		if account != accountID || !since.Equal(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("summary of %s since %v", account, since)
		}
		return scorecard.Summary{Reasons: map[signal.AgentID]backtest.Reasons{"trading": {TakeProfit: 4, StopLoss: 3}},
			Closed: 5, Wins: 2, R: -0.5, RNet: -0.75}, nil
	}
	const want = `{"signals":{"open":4,"closed":11},"by_agent":[` +
		`{"agent_id":"trading","open":3,"closed":9,"take_profit":4,"stop_loss":3,"expired":2,"agent_exit":0},` +
		`{"agent_id":"weather","open":0,"closed":0,"take_profit":0,"stop_loss":0,"expired":0,"agent_exit":0},` +
		`{"agent_id":"seo","open":1,"closed":2,"take_profit":0,"stop_loss":0,"expired":2,"agent_exit":0}],` +
		`"today":{"closed":5,"hits":2,"r":-0.5,"r_net":-0.75}}`
	if a := do(t, newServer(t, f), "GET", "/v1/summary", "", "Authorization: Bearer reader"); a.Status != 200 ||
		a.Body != want || a.Header.Get("RateLimit") == "" {
		t.Errorf("%d %s\nwant %s", a.Status, a.Body, want)
	}
	if a := do(t, newServer(t, f), "GET", "/v1/summary?since=2026", ""); a.Status != 400 {
		t.Errorf("with a parameter: %d %s", a.Status, a.Body)
	}
	f.summary = func(signal.AccountID, time.Time) (scorecard.Summary, error) {
		return scorecard.Summary{}, signal.Unavailable(nil)
	}
	if a := do(t, newServer(t, f), "GET", "/v1/summary", ""); a.Status != 503 {
		t.Errorf("without results: %d %s", a.Status, a.Body)
	}
}

func TestDeliveriesOfAllWebhooks(t *testing.T) {
	t.Parallel()
	var got delivery.Query
	f := &fakes{}
	f.allDeliveries = func(account signal.AccountID, q delivery.Query) ([]delivery.Delivery, int, error) {
		if got = q; account != accountID {
			t.Errorf("deliveries of %s", account)
		}
		return []delivery.Delivery{newDelivery()}, 9, nil
	}
	f.deliveries = func(_ signal.AccountID, _ signal.WebhookID,
		q delivery.Query) ([]delivery.Delivery, int, error) {
		got = q
		return []delivery.Delivery{newDelivery()}, 9, nil
	}
	s := newServer(t, f)
	const query = "status=failed&event=signal.created&limit=2&offset=3"
	all := do(t, s, "GET", "/v1/deliveries?"+query, "")
	want := delivery.Query{Status: delivery.Failed, Type: signal.SignalCreated, Limit: 2, Offset: 3}
	if d := cmp.Diff(want, got); all.Status != 200 || d != "" {
		t.Errorf("%d %s (-want +got):\n%s", all.Status, all.Body, d)
	}
	got = delivery.Query{}
	id := string(newDelivery().Webhook)
	one := do(t, s, "GET", "/v1/deliveries?webhook_id="+id+"&"+query, "")
	if d := cmp.Diff(want, got); one.Body != all.Body || d != "" {
		t.Errorf("of one webhook: %s (-want +got):\n%s", one.Body, d)
	}
	for target, status := range map[string]int{"status=x": 400, "event=x": 400, "limit=0": 400, "webhook=x": 400,
		"webhook_id=x": 404, "webhook_id=": 200} {
		if a := do(t, s, "GET", "/v1/deliveries?"+target, ""); a.Status != status {
			t.Errorf("%s: %d %s", target, a.Status, a.Body)
		}
	}
	if a := do(t, s, "GET", "/v1/deliveries", "", "Authorization: Bearer reader"); a.Status != 403 {
		t.Errorf("without the scope: %d", a.Status)
	}
}
