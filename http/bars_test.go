package http_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

func withBars(f func(asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error),
) func(*signalhttp.Options) {
	return func(o *signalhttp.Options) { o.Assets = fakeAssets{bars: f} }
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
