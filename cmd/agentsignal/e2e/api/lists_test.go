package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// TestAFullListIsAsEachSignal.
func TestAFullListIsAsEachSignal(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	for _, asset := range []string{"BTC", "ETH", "AAPL", "oil"} {
		trader.Run(asset, "momentum")
	}
	full := e2e.Decode[struct {
		Signals []json.RawMessage
		Total   int
	}](t, trader.Get("/v1/signals?view=full&limit=3").Ok(t).Body)
	plain := trader.Signals("limit=3")
	if full.Total != 4 || len(full.Signals) != 3 || plain.Total != 4 {
		t.Fatalf("%d of %d signals", len(full.Signals), full.Total)
	}
	for i, s := range plain.Signals {
		if one := trader.Get("/v1/signals/" + s.ID).Ok(t).Body; string(full.Signals[i]) != one {
			t.Errorf("in the list: %s\nby its id: %s", full.Signals[i], one)
		}
	}
}

// TestAnAgentDescribesItsRuns by a schema with its own strategies.
func TestAnAgentDescribesItsRuns(t *testing.T) {
	t.Parallel()
	reader, _ := e2e.Shared(t).Account(t)
	for id, strategy := range map[string]string{"trading": "momentum", "weather": "agriculture", "seo": "blog_post"} {
		a := e2e.Decode[struct {
			Strategies []string
			Input      struct {
				Properties struct{ Strategy struct{ Enum []string } }
			} `json:"input_schema"`
		}](t, reader.Get("/v1/agents/"+id).Ok(t).Body)
		if enum := a.Input.Properties.Strategy.Enum; !slices.Equal(enum, a.Strategies) ||
			!slices.Contains(enum, strategy) {
			t.Errorf("%s: strategies %v, in the schema %v", id, a.Strategies, enum)
		}
	}
}

// TestASummaryCountsWhatWasRun, and the list of all deliveries is empty without webhooks.
func TestASummaryCountsWhatWasRun(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	trader.Run("BTC", "momentum")
	trader.Run("ETH", "momentum")
	trader.Post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`).Ok(t)
	got := e2e.Decode[struct {
		Signals struct{ Open, Closed int }
		Agents  []struct {
			ID   string `json:"agent_id"`
			Open int
		} `json:"by_agent"`
		Today struct{ Closed int }
	}](t, trader.Get("/v1/summary").Ok(t).Body)
	if got.Signals.Open != 3 || got.Signals.Closed != 0 || got.Today.Closed != 0 || len(got.Agents) != 3 ||
		got.Agents[0].Open != 2 || got.Agents[2].Open != 1 {
		t.Errorf("%+v", got)
	}
	if list := e2e.Decode[struct{ Total int }](t, trader.Get("/v1/deliveries?status=failed").Ok(t).Body); list.Total != 0 {
		t.Errorf("%d deliveries", list.Total)
	}
}

// TestAnExportIsTheFullList, line by line.
func TestAnExportIsTheFullList(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	for _, asset := range []string{"BTC", "ETH", "oil"} {
		trader.Run(asset, "momentum")
	}
	full := e2e.Decode[struct{ Signals []json.RawMessage }](t, trader.Get("/v1/signals?view=full").Ok(t).Body)
	want := ""
	for _, s := range full.Signals {
		want += string(s) + "\n"
	}
	if got := trader.Get("/v1/signals/export?format=jsonl").Ok(t).Body; got != want || len(full.Signals) != 3 {
		t.Errorf("exported\n%s\nlisted\n%s", got, want)
	}
	if got := trader.Get("/v1/signals/export?asset=eth").Ok(t).Body; strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, ",ETH,momentum,") {
		t.Errorf("as CSV: %s", got)
	}
}
