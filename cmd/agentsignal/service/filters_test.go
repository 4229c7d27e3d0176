package service

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// TestFiltersOfStreamsAndWebhooks runs two strategies: a filter passes the events of the signals
// of one of them to a stream, live and replayed, and to a webhook.
func TestFiltersOfStreamsAndWebhooks(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	all, some := newHookEndpoint(t, nil), newHookEndpoint(t, nil)
	kinds := []string{"signal.created", "signal.updated"}
	trader.hook(all.url, kinds...)
	const filters = `{"assets":["btc-usd"],"strategies":["breakout"],"min_confidence":0.01,"min_expected_r_net":-100}`
	w := decode[struct {
		ID      string `json:"webhook_id"`
		Filters json.RawMessage
	}](t, trader.post("/v1/webhooks", jsonOf(t, map[string]any{"url": some.url, "events": kinds,
		"filters": json.RawMessage(filters)})).ok(t).Body)
	const shown = `{"assets":["btc-usd"],"agents":[],"strategies":["breakout"],"directions":[],"min_confidence":0.01,` +
		`"min_expected_r_net":-100}`
	if !same(string(w.Filters), shown) {
		t.Errorf("the webhook has the filters %s, want %s", w.Filters, shown)
	}
	const subscription = `"channels":["signal.new","signal.updated"],"filters":` + filters
	live := trader.dial()
	live.subscribe(subscription)
	every := trader.dial()
	every.subscribe(`"channels":["signal.new"]`)
	other, wanted := trader.run("BTC", "momentum").ID, trader.run("BTC", "breakout").ID
	every.signals(other, wanted)
	live.signals(wanted)
	back := trader.dial()
	if d := back.subscribe(subscription + `,"last_event_id":"` + every.events()[0].ID + `"`); d.Resumed == nil ||
		!d.Resumed.Complete || d.Resumed.Replayed != 1 {
		t.Errorf("a replay has %+v, want 1 event", d.Resumed)
	}
	all.await(t, 2)
	if got := some.await(t, 1); len(got) != 1 || !strings.Contains(got[0].Body, wanted) {
		t.Errorf("the filtered webhook gets %+v", got)
	}
	none := trader.do(http.MethodPatch, "/v1/webhooks/"+w.ID, `{"filters":{}}`).ok(t)
	if left := decode[map[string]any](t, none.Body)["filters"]; left != nil {
		t.Errorf("after the removal of its filters: %s", none.Body)
	}
}

// Filters that cannot be meant are refused with the name of the member.
func TestFiltersRefused(t *testing.T) {
	t.Parallel()
	s := sharedHooks(t)
	trader, _ := s.account(t)
	live := trader.dial()
	for _, filters := range []string{`{"strategies":["moment"]}`, `{"agents":["trading","trading"]}`,
		`{"directions":["up"]}`, `{"min_confidence":1.1}`, `{"min_expected_r_net":"1"}`, `{"asset":["BTC"]}`} {
		trader.post("/v1/webhooks", `{"url":"https://example.com/","events":["signal.created"],"filters":`+filters+`}`).
			fails(t, "invalid_request")
		live.sendRaw(websocket.TextMessage, `{"action":"subscribe","filters":`+filters+`}`)
	}
	live.until("each is refused", func(all []message) bool {
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
