package webhook

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// TestFilteredWebhookGetsWhatPasses: by the values at creation, and by any spelling of the asset.
func TestFilteredWebhookGetsWhatPasses(t *testing.T) {
	name := func(asset string) string {
		if asset == "btc-usd" {
			return "BTC"
		}
		return asset
	}
	withHarnessOptions(t, func(o *Options) { o.Name = name }, func(t *testing.T, h *harness) {
		id := h.serve(nil, allEvents, func(hook *delivery.Webhook) {
			hook.Filter = &signal.Filter{Assets: []string{"btc-usd"}, Strategies: []string{"momentum"},
				MinConfidence: new(.4), MinExpectedRNet: new(.1)}
		})
		event := func(kind signal.EventType, asset, strategy string, first, expected float64) signal.Event {
			return signal.Event{Type: kind, Asset: asset, Data: []byte(`{}`),
				Listing: &signal.Listing{Asset: asset, Strategy: strategy, Confidence: .2},
				Initial: &signal.Initial{Confidence: first, ExpectedRNet: &expected}}
		}
		got := h.append(
			event(signal.SignalCreated, "BTC", "momentum", .4, .1),
			event(signal.SignalUpdated, "btc", "momentum", .4, .1),
			event(signal.SignalClosed, "BTC", "momentum", .4, .1),
			signal.Event{Type: signal.AgentStarted, Agent: "trading", Data: []byte(`{}`)},
		)
		h.append(
			event(signal.SignalCreated, "ETH", "momentum", .4, .1),
			event(signal.SignalUpdated, "BTC", "breakout", .4, .1),
			event(signal.SignalClosed, "BTC", "momentum", .39, .1),
			event(signal.SignalCreated, "BTC", "momentum", .4, .09),
		)
		pass(time.Second)
		h.once(id, got)
	})
}
