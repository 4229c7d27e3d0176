package service

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestAFullListIsAsEachSignal.
func TestAFullListIsAsEachSignal(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	for _, asset := range []string{"BTC", "ETH", "AAPL", "oil"} {
		trader.run(asset, "momentum")
	}
	full := decode[struct {
		Signals []json.RawMessage
		Total   int
	}](t, trader.get("/v1/signals?view=full&limit=3").ok(t).Body)
	plain := trader.signals("limit=3")
	if full.Total != 4 || len(full.Signals) != 3 || plain.Total != 4 {
		t.Fatalf("%d of %d signals", len(full.Signals), full.Total)
	}
	for i, s := range plain.Signals {
		if one := trader.get("/v1/signals/" + s.ID).ok(t).Body; string(full.Signals[i]) != one {
			t.Errorf("in the list: %s\nby its id: %s", full.Signals[i], one)
		}
	}
}

// TestAnAgentDescribesItsRuns by a schema with its own strategies.
func TestAnAgentDescribesItsRuns(t *testing.T) {
	t.Parallel()
	reader, _ := shared(t).account(t)
	for id, strategy := range map[string]string{"trading": "momentum", "weather": "agriculture", "seo": "blog_post"} {
		a := decode[struct {
			Strategies []string
			Input      struct {
				Properties struct{ Strategy struct{ Enum []string } }
			} `json:"input_schema"`
		}](t, reader.get("/v1/agents/"+id).ok(t).Body)
		if enum := a.Input.Properties.Strategy.Enum; !slices.Equal(enum, a.Strategies) ||
			!slices.Contains(enum, strategy) {
			t.Errorf("%s: strategies %v, in the schema %v", id, a.Strategies, enum)
		}
	}
}
