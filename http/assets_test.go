package http_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// everyAsset has every asset, by one name.
type everyAsset struct{ fakeAssets }

func (everyAsset) Name(asset string) string                       { return asset }
func (everyAsset) Known(context.Context, string) bool             { return true }
func (everyAsset) Check(context.Context, string) ([]string, bool) { return nil, true }

// fakeAssets has BTC, XAUUSD and oil, each also by another name.
type fakeAssets struct {
	list []market.AssetState
	bars func(asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error)
}

func (f fakeAssets) Bars(_ context.Context, asset string, tf signal.Timeframe,
	from, to time.Time) ([]marketdata.Bar, error) {
	if f.bars == nil {
		return nil, nil
	}
	return f.bars(asset, tf, from, to)
}

func (fakeAssets) Name(asset string) string {
	if name := map[string]string{"BTC": "BTC", "BTCUSDT": "BTC", "GOLD": "XAUUSD",
		"CRUDE": "oil"}[strings.ToUpper(asset)]; name != "" {
		return name
	}
	return asset
}

func (f fakeAssets) Known(ctx context.Context, asset string) bool {
	_, ok := f.Check(ctx, asset)
	return ok
}

func (fakeAssets) Check(_ context.Context, asset string) ([]string, bool) {
	switch asset {
	case "BTC", "XAUUSD", "oil":
		return nil, true
	case "BTCC":
		return []string{"BTC"}, false
	}
	return nil, false
}

func (f fakeAssets) Assets(context.Context) ([]market.AssetState, error) { return f.list, nil }

func withAssets(o *config) { o.Assets = fakeAssets{} }

// TestAssetsThatNoSourceCanKnowAreRefused in all that takes one.
func TestAssetsThatNoSourceCanKnowAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, withAssets)
	const rest = `,"strategy":"momentum"`
	tests := map[string]struct {
		method, path, body string
		want               []string
	}{
		"run": {"POST", "/v1/agents/trading/run", `{"asset":"BTCC"` + rest + `}`,
			[]string{"body /asset invalid_value"}},
		"job": {"POST", "/v1/agents/trading/run", `{"asset":"BTCC","async":true` + rest + `}`,
			[]string{"body /asset invalid_value"}},
		"scan": {"POST", "/v1/agents/trading/scan", `{"assets":["BTC","BTCC","zz"]` + rest + `}`,
			[]string{"body /assets/1 invalid_value", "body /assets/2 invalid_value"}},
		"backtest": {"POST", "/v1/backtests", `{"agent_id":"trading","asset":"BTCC"` + rest + `}`,
			[]string{"body /asset invalid_value"}},
		"schedule": {"POST", "/v1/schedules", `{"agent_id":"trading","every":"bar","assets":["BTCC"]` + rest + `}`,
			[]string{"body /assets/0 invalid_value"}},
		"change": {"PATCH", aSchedule, `{"assets":["BTC","BTCC"]}`, []string{"body /assets/1 invalid_value"}},
		"aliases": {"POST", "/v1/agents/trading/scan", `{"assets":["BTC","btcusdt"]` + rest + `}`,
			[]string{"body /assets/1 duplicate"}},
		"in a schedule": {"POST", "/v1/schedules",
			`{"agent_id":"trading","every":"bar","assets":["btcusdt","BTC"]` + rest + `}`,
			[]string{"body /assets/1 duplicate"}},
		"one fault each": {"POST", "/v1/agents/weather/run", `{"asset":"BTCC","strategy":"energy_demand"}`,
			[]string{"body /asset invalid_value"}},
	}
	for name, test := range tests {
		a := do(t, s, test.method, test.path, test.body)
		if a.Status != 400 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		if d := cmp.Diff(test.want, a.faults(t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	a := do(t, s, "POST", "/v1/agents/trading/scan", tests["scan"].body)
	if p := a.problem(t); p.Errors[0].Detail != "no source has this asset: "+
		"did you mean BTC? GET /v1/assets lists all" ||
		p.Errors[1].Detail != "no source has this asset: "+
			"GET /v1/assets lists all" {
		t.Errorf("%s", a.Body)
	}
	for name, body := range map[string]string{"content": `{"asset":"BTCC","strategy":"blog_post"}`} {
		if a := do(t, s, "POST", "/v1/agents/seo/run", body); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// A filter of nothing is silent, so all that filter by an asset refuse a misspelt one.
func TestMisspeltAssetsInFiltersAreRefused(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.suggest = func(account signal.AccountID, name string) []string {
		if account == accountID && name == "BTCC" {
			return []string{"BTC"}
		}
		return nil
	}
	s := newServer(t, f, withAssets)
	hook := func(filters string) string {
		return `{"url":"https://example.com/hooks/a","events":["signal.created"],"filters":` + filters + `}`
	}
	for _, test := range []struct{ method, path, body, fault string }{
		{"GET", "/v1/signals?asset=BTCC", "", "query asset"},
		{"GET", "/v1/signals?asset=+BTCC+&view=full", "", "query asset"},
		{"GET", "/v1/signals/export?asset=BTCC", "", "query asset"},
		{"GET", "/v1/scorecard?asset=BTCC", "", "query asset"},
		{"POST", "/v1/webhooks", hook(`{"assets":["desk","BTCC"]}`), "body /filters/assets/1"},
		{"PATCH", aWebhook, `{"filters":{"assets":["BTCC"]}}`, "body /filters/assets/0"},
	} {
		a := do(t, s, test.method, test.path, test.body)
		if a.Status != 400 {
			t.Errorf("%s %s: %d %s", test.method, test.path, a.Status, a.Body)
			continue
		}
		if got := a.faults(t); len(got) != 1 || got[0] != test.fault+" invalid_value" ||
			a.problem(t).Errors[0].Detail != "neither an asset nor a signal of the account has this name: "+
				"did you mean BTC? GET /v1/assets lists all" {
			t.Errorf("%s %s: %s", test.method, test.path, a.Body)
		}
		accepted := strings.NewReplacer("BTCC", "desk", `"desk",`, "")
		if a := do(t, s, test.method, accepted.Replace(test.path), accepted.Replace(test.body)); a.Status != 200 {
			t.Errorf("%s %s with another name: %d %s", test.method, test.path, a.Status, a.Body)
		}
	}
}

// TestASchedulesAssetMayGo: a schedule with an asset that no source has can be disabled.
func TestASchedulesAssetMayGo(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	f.schedule = func(signal.AccountID, signal.ScheduleID) (signal.Schedule, error) {
		w := newSchedule()
		w.Assets = []string{"BTCC"}
		return w, nil
	}
	f.changeSchedule = func(w signal.Schedule, _ bool) (signal.Schedule, error) { return w, nil }
	s := newServer(t, f, withAssets)
	if a := do(t, s, "PATCH", aSchedule, `{"status":"disabled"}`); a.Status != 200 ||
		!strings.Contains(a.Body, `"disabled"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestAssetsGoByTheirCatalogueNames(t *testing.T) {
	t.Parallel()
	f := &fakes{}
	var scanned []string
	f.scan = func(req signal.RunRequest, assets []string) (signal.Job, error) {
		if scanned = assets; req.Asset != "" {
			t.Errorf("the scan has the asset %q", req.Asset)
		}
		return newScan(), nil
	}
	var tested string
	f.backtest = func(req signal.RunRequest, _, _ time.Time) (signal.Job, error) {
		tested = req.Asset
		return newBacktest(), nil
	}
	s := newServer(t, f, withAssets)
	do(t, s, "POST", "/v1/agents/trading/scan", `{"assets":["btcusdt"],"strategy":"momentum"}`)
	do(t, s, "POST", "/v1/backtests", `{"agent_id":"trading","asset":"gold","strategy":"momentum"}`)
	if d := cmp.Diff([]string{"BTC"}, scanned); d != "" || tested != "XAUUSD" {
		t.Errorf("scanned (-want +got):\n%s, tested %s", d, tested)
	}
	a := do(t, s, "POST", "/v1/schedules",
		`{"agent_id":"trading","every":"bar","assets":["btcusdt","Gold"],"strategy":"momentum"}`)
	if a.Status != 200 || !strings.Contains(a.Body, `"assets":["BTC","XAUUSD"]`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a = do(t, s, "POST", "/v1/schedules", `{"agent_id":"seo","every":"60m","assets":["Gold"],"strategy":"blog_post"}`)
	if a.Status != 200 || !strings.Contains(a.Body, `"assets":["Gold"]`) {
		t.Errorf("a subject: %d %s", a.Status, a.Body)
	}
	if a := do(t, s, "POST", "/v1/agents/weather/run",
		`{"asset":"crude","strategy":"energy_demand"}`); a.Status != 200 {
		t.Errorf("a commodity by another name: %d %s", a.Status, a.Body)
	}
}

func TestListAssets(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, func(o *config) {
		o.Assets = fakeAssets{list: []market.AssetState{
			{Symbol: "BTC", Class: "crypto", Source: "simulated", Simulated: true, Last: 64250.125,
				LastAt: morning, Open: true},
			{Symbol: `W "1"`, Source: "stream"}}}
	})
	const want = `{"assets":[{"asset":"BTC","class":"crypto","source":"simulated","simulated":true,` +
		`"last_price":64250.125,` +
		`"last_price_at":"2026-11-21T09:30:00.000Z","open":true},` +
		`{"asset":"W \"1\"","class":null,"source":"stream","simulated":false,"last_price":null,"last_price_at":null,` +
		`"open":false}]}`
	if a := do(t, s, "GET", "/v1/assets", "", "Authorization: Bearer reader"); a.Status != 200 || a.Body != want ||
		a.Header.Get("RateLimit") == "" {
		t.Errorf("%d %s\nwant %s", a.Status, a.Body, want)
	}
	if a := do(t, newServer(t, &fakes{}, withAssets), "GET", "/v1/assets", ""); a.Body != `{"assets":[]}` {
		t.Errorf("without any: %s", a.Body)
	}
}

func withBars(f func(asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error),
) func(*config) {
	return func(o *config) { o.Assets = fakeAssets{bars: f} }
}

func TestBarsOfAnAsset(t *testing.T) {
	t.Parallel()
	var asked string
	s := newServer(t, &fakes{}, withBars(
		func(asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error) {
			asked = fmt.Sprint(asset, tf, from.Unix(), to.Unix())
			return []marketdata.Bar{{OpenTime: morning.UnixMilli(), Open: 1.5, High: 2, Low: 1e-8, Close: 1.75,
				Volume: 12}}, nil
		}))
	const want = `{"bars":[{"open_time":"2026-11-21T09:30:00.000Z","open":1.5,"high":2,"low":0.00000001,` +
		`"close":1.75,"volume":12}]}`
	for target, wantAsked := range map[string]string{
		"btc/bars": fmt.Sprint("btc", signal.H1, time.Time{}.Unix(), time.Time{}.Unix()),
		"BTC%2FUSD/bars?timeframe=5m&from=2026-11-21T10:30:00%2B01:00&to=2026-11-22": fmt.Sprint("BTC/USD", signal.M5,
			morning.Unix(), morning.Truncate(24*time.Hour).Add(24*time.Hour).Unix()),
	} {
		a := do(t, s, "GET", "/v1/assets/"+target, "", "Authorization: Bearer reader")
		if a.Status != 200 || a.Body != want || asked != wantAsked || a.Header.Get("RateLimit") == "" {
			t.Errorf("%s: asked %s, want %s: %d %s", target, asked, wantAsked, a.Status, a.Body)
		}
	}
	if a := do(t, newServer(t, &fakes{}), "GET", "/v1/assets/BTC/bars", ""); a.Body != `{"bars":[]}` {
		t.Errorf("without bars: %s", a.Body)
	}
}

func TestBarsAreAtMost1500(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, withBars(
		func(string, signal.Timeframe, time.Time, time.Time) ([]marketdata.Bar, error) {
			bars := make([]marketdata.Bar, 1501)
			for i := range bars {
				bars[i].OpenTime = morning.UnixMilli() + int64(i)
			}
			return bars, nil
		}))
	a := do(t, s, "GET", "/v1/assets/BTC/bars", "")
	if n := strings.Count(a.Body, "open_time"); n != 1500 || strings.Contains(a.Body, "09:30:00.000Z") {
		t.Errorf("%d bars: %.200s", n, a.Body)
	}
}

func TestWrongRequestsForBars(t *testing.T) {
	t.Parallel()
	s := newServer(t, &fakes{}, withBars(
		func(string, signal.Timeframe, time.Time, time.Time) ([]marketdata.Bar, error) {
			return nil, signal.NotFound("asset")
		}))
	for query, want := range map[string][]string{
		"timeframe=2h":                  {"query timeframe invalid_value"},
		"from=yesterday&to=21.11.2026":  {"query from invalid_format", "query to invalid_format"},
		"from=2026-11-22&to=2026-11-21": {"query to out_of_range"},
		"until=2026-11-22":              {"query until unknown_field"},
	} {
		a := do(t, s, "GET", "/v1/assets/BTC/bars?"+query, "")
		if d := cmp.Diff(want, a.faults(t)); a.Status != 400 || d != "" {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	for asset, want := range map[string]string{
		"BTCC":                  "no such asset: did you mean BTC? GET /v1/assets lists all",
		"zz":                    "no such asset: GET /v1/assets lists all",
		"%20":                   "no such asset: GET /v1/assets lists all",
		"%00":                   "no such asset: GET /v1/assets lists all",
		strings.Repeat("x", 65): "no such asset: GET /v1/assets lists all",
	} {
		a := do(t, s, "GET", "/v1/assets/"+asset+"/bars", "")
		if p := a.problem(t); a.Status != 404 || p.Detail != want {
			t.Errorf("%q: %d %s", asset, a.Status, a.Body)
		}
	}
	broken := newServer(t, &fakes{}, withBars(
		func(string, signal.Timeframe, time.Time, time.Time) ([]marketdata.Bar, error) {
			return nil, signal.Unavailable(nil)
		}))
	if a := do(t, broken, "GET", "/v1/assets/BTC/bars", ""); a.Status != 503 {
		t.Errorf("without the store: %d %s", a.Status, a.Body)
	}
}
