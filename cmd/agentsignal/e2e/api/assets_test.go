package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestAssetsHaveOneName: each spelling of an asset finds what was made under another, and a
// misspelt one is refused.
func TestAssetsHaveOneName(t *testing.T) {
	t.Parallel()
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	s := e2e.Start(t, c)
	trader, _ := s.Account(t)
	s.AwaitPrices(t, "BTC", signal.H1)
	live := trader.Dial()
	live.Subscribe(`"channels":["signal.new"],"filters":{"assets":["btc-usd"]}`)
	var ids []string
	for _, asset := range []string{"BTC", "btc", "BTCUSDT", "BTC/USD"} {
		made := trader.Run(asset, "momentum")
		if ids = append(ids, made.ID); made.Asset != "BTC" {
			t.Errorf("a run on %s is on %s", asset, made.Asset)
		}
	}
	live.Signals(ids...)
	live.Subscribe(`"channels":["market.price"],"filters":{"assets":["btc-usd"]}`)
	live.Until("prices of BTC", func(all []e2e.Message) bool {
		return slices.ContainsFunc(all, func(m e2e.Message) bool {
			var d struct{ Asset, Source string }
			return m.Type == "market.price" && json.Unmarshal(m.Data, &d) == nil && d.Asset == "BTC" && d.Source == "simulated"
		})
	})
	for _, filter := range []string{"BTC", "btcusdt", "btc/usd", "Bitcoin"} {
		if p := trader.Signals("asset=" + filter); p.Total != 4 || p.Signals[0].Asset != "BTC" {
			t.Errorf("%s finds %d signals", filter, p.Total)
		}
	}
	misspelt := trader.TryRun("BTCC", "momentum")
	misspelt.Fails(t, "invalid_request")
	if !strings.Contains(string(misspelt.Body), `"pointer":"/asset"`) ||
		!strings.Contains(string(misspelt.Body), "did you mean BTC? GET /v1/assets lists all") {
		t.Errorf("a misspelt asset: %s", misspelt.Body)
	}
	for _, list := range []string{"/v1/signals?asset=BTCC", "/v1/scorecard?asset=bitcon"} {
		if a := trader.Get(list).Want(t, 400); !strings.Contains(a.Body, "did you mean BTC?") {
			t.Errorf("a misspelt asset in %s: %s", list, a.Body)
		}
	}
	// The name of a signal of the account is no misspelt one.
	subject := "/v1/signals?asset=soil"
	trader.Get(subject).Want(t, 400)
	trader.Post("/v1/agents/seo/run", `{"asset":"Soil","strategy":"blog_post"}`).Ok(t)
	trader.Get(subject).Ok(t)
	trader.Post("/v1/schedules", `{"agent_id":"trading","assets":["BTCC"],"strategy":"momentum","every":"bar"}`).
		Fails(t, "invalid_request")
	all := e2e.Decode[struct {
		Assets []struct {
			Asset, Class, Source string
			Simulated, Open      bool
			Price                *float64 `json:"last_price"`
			At                   *string  `json:"last_price_at"`
		}
	}](t, trader.Get("/v1/assets").Ok(t).Body).Assets
	if len(all) != 17 {
		t.Errorf("%d assets are listed", len(all))
	}
	for _, a := range all {
		if a.Source != "simulated" || !a.Simulated || !a.Open || a.Price == nil || *a.Price <= 0 || a.At == nil {
			t.Errorf("%+v", a)
		}
	}
}

// TestBarsAreThoseOfTheSimulatedMarket, by any spelling of the asset.
func TestBarsAreThoseOfTheSimulatedMarket(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := e2e.TestConfig(t, redistest.New(t).URL())
	c.Market.Source = "simulated"
	s := e2e.Start(t, c)
	trader, _ := s.Account(t)
	s.AwaitPrices(t, "BTC", signal.H1)
	type bars struct {
		Bars []struct {
			OpenTime               string `json:"open_time"`
			Open, High, Low, Close float64
		}
	}
	all := e2e.Decode[bars](t, trader.Get("/v1/assets/BTC%2FUSD/bars").Ok(t).Body).Bars
	if len(all) < 300 || len(all) > 1500 {
		t.Fatalf("%d bars", len(all))
	}
	for i, b := range all {
		if b.Low <= 0 || b.Low > min(b.Open, b.Close) || b.High < max(b.Open, b.Close) ||
			i > 0 && b.OpenTime <= all[i-1].OpenTime {
			t.Errorf("bar %d is %+v", i, b)
		}
	}
	from, to := all[100].OpenTime, all[102].OpenTime
	few := e2e.Decode[bars](t, trader.Get("/v1/assets/btc/bars?timeframe=1h&from="+from+"&to="+to).Ok(t).Body).Bars
	if len(few) != 3 || few[0] != all[100] || few[2] != all[102] {
		t.Errorf("from %s to %s: %+v", from, to, few)
	}
	if a := trader.Get("/v1/assets/BTCC/bars").Want(t, 404); !strings.Contains(a.Body, "did you mean BTC?") {
		t.Errorf("a misspelt asset: %s", a.Body)
	}
}
