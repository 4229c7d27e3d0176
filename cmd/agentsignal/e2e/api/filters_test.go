package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestFiltersOfStreamsAndWebhooks runs two strategies: a filter passes the events of the signals
// of one of them to a stream, live and replayed, and to a webhook.
func TestFiltersOfStreamsAndWebhooks(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	all, some := e2e.NewHookEndpoint(t, nil), e2e.NewHookEndpoint(t, nil)
	kinds := []string{"signal.created", "signal.updated"}
	trader.Hook(all.URL, kinds...)
	const filters = `{"assets":["btc-usd"],"strategies":["breakout"],"min_confidence":0.01,"min_expected_r_net":-100}`
	w := e2e.Decode[struct {
		ID      string `json:"webhook_id"`
		Filters json.RawMessage
	}](t, trader.Post("/v1/webhooks", e2e.JsonOf(t, map[string]any{"url": some.URL, "events": kinds,
		"filters": json.RawMessage(filters)})).Ok(t).Body)
	const shown = `{"assets":["btc-usd"],"agents":[],"strategies":["breakout"],"directions":[],"min_confidence":0.01,` +
		`"min_expected_r_net":-100}`
	if !e2e.Same(string(w.Filters), shown) {
		t.Errorf("the webhook has the filters %s, want %s", w.Filters, shown)
	}
	const subscription = `"channels":["signal.new","signal.updated"],"filters":` + filters
	live := trader.Dial()
	live.Subscribe(subscription)
	every := trader.Dial()
	every.Subscribe(`"channels":["signal.new"]`)
	other, wanted := trader.Run("BTC", "momentum").ID, trader.Run("BTC", "breakout").ID
	every.Signals(other, wanted)
	live.Signals(wanted)
	back := trader.Dial()
	if d := back.Subscribe(subscription + `,"last_event_id":"` + every.Events()[0].ID + `"`); d.Resumed == nil ||
		!d.Resumed.Complete || d.Resumed.Replayed != 1 {
		t.Errorf("a replay has %+v, want 1 event", d.Resumed)
	}
	all.Await(t, 2)
	if got := some.Await(t, 1); len(got) != 1 || !strings.Contains(got[0].Body, wanted) {
		t.Errorf("the filtered webhook gets %+v", got)
	}
	none := trader.Do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"filters":{}}`).Ok(t)
	if left := e2e.Decode[map[string]any](t, none.Body)["filters"]; left != nil {
		t.Errorf("after the removal of its filters: %s", none.Body)
	}
}

// Filters that cannot be meant are refused with the name of the member.
func TestFiltersRefused(t *testing.T) {
	t.Parallel()
	s := e2e.SharedHooks(t)
	trader, _ := s.Account(t)
	live := trader.Dial()
	for _, filters := range []string{`{"strategies":["moment"]}`, `{"agents":["trading","trading"]}`,
		`{"directions":["up"]}`, `{"min_confidence":1.1}`, `{"min_expected_r_net":"1"}`, `{"asset":["BTC"]}`} {
		trader.Post("/v1/webhooks", `{"url":"https://example.com/","events":["signal.created"],"filters":`+filters+`}`).
			Fails(t, "invalid_request")
		live.SendRaw(websocket.TextMessage, `{"action":"subscribe","filters":`+filters+`}`)
	}
	live.Until("each is refused", func(all []e2e.Message) bool {
		refused := 0
		for _, m := range all {
			var e struct{ Code string }
			if m.Type == "error" && json.Unmarshal(m.Data, &e) == nil && e.Code == "invalid_filter" {
				refused++
			}
		}
		return refused == 6
	})
}
