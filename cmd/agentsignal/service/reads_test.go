package service

import (
	"encoding/json"
	"slices"
	"strings"
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

// TestASummaryCountsWhatWasRun, and the list of all deliveries is empty without webhooks.
func TestASummaryCountsWhatWasRun(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	trader.run("BTC", "momentum")
	trader.run("ETH", "momentum")
	trader.post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`).ok(t)
	got := decode[struct {
		Signals struct{ Open, Closed int }
		Agents  []struct {
			ID   string `json:"agent_id"`
			Open int
		} `json:"by_agent"`
		Today struct{ Closed int }
	}](t, trader.get("/v1/summary").ok(t).Body)
	if got.Signals.Open != 3 || got.Signals.Closed != 0 || got.Today.Closed != 0 || len(got.Agents) != 3 ||
		got.Agents[0].Open != 2 || got.Agents[2].Open != 1 {
		t.Errorf("%+v", got)
	}
	if list := decode[struct{ Total int }](t, trader.get("/v1/deliveries?status=failed").ok(t).Body); list.Total != 0 {
		t.Errorf("%d deliveries", list.Total)
	}
}

// TestAnExportIsTheFullList, line by line.
func TestAnExportIsTheFullList(t *testing.T) {
	t.Parallel()
	trader, _ := shared(t).account(t)
	for _, asset := range []string{"BTC", "ETH", "oil"} {
		trader.run(asset, "momentum")
	}
	full := decode[struct{ Signals []json.RawMessage }](t, trader.get("/v1/signals?view=full").ok(t).Body)
	want := ""
	for _, s := range full.Signals {
		want += string(s) + "\n"
	}
	if got := trader.get("/v1/signals/export?format=jsonl").ok(t).Body; got != want || len(full.Signals) != 3 {
		t.Errorf("exported\n%s\nlisted\n%s", got, want)
	}
	if got := trader.get("/v1/signals/export?asset=eth").ok(t).Body; strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, ",ETH,momentum,") {
		t.Errorf("as CSV: %s", got)
	}
}
