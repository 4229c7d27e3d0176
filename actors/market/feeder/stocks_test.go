package feeder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
)

var inNewYork = sync.OnceValue(func() *time.Location {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	return zone
})

// sessionOn returns the session of the exchange on a day in New York, or false without one.
func sessionOn(day time.Time) (opens, closes time.Time, ok bool) {
	y, m, d := day.In(inNewYork()).Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, inNewYork())
	opens, closes = sessions.Exchange.Span(midnight)
	return opens, closes, opens.Before(midnight.AddDate(0, 0, 1))
}

// stocks returns options for a server that behaves like Alpaca. It has bars from 9:00 to 17:00 in
// New York; those outside of the session must not count.
func stocks(t *testing.T, now func() time.Time) source.Options {
	t.Helper()
	mux := http.NewServeMux()
	steps := map[string]time.Duration{
		"1Min": time.Minute, "5Min": 5 * time.Minute, "1Hour": time.Hour, "1Day": 24 * time.Hour,
	}
	mux.HandleFunc("GET /v2/stocks/bars", func(w http.ResponseWriter, r *http.Request) {
		from, to := markettest.Instant(t, r.FormValue("start")), markettest.Instant(t, r.FormValue("end"))
		step, symbol := steps[r.FormValue("timeframe")], r.FormValue("symbols")
		var rows []string
		add := func(at time.Time, price, low float64) {
			rows = append(rows, fmt.Sprintf(`{"t":%q,"o":%v,"h":%v,"l":%v,"c":%v,"v":5}`,
				at.UTC().Format(time.RFC3339), price, price+1, low, price))
		}
		for at := from.Truncate(step); !at.After(to) && !at.After(now()) && symbol != "NONE"; at = at.Add(step) {
			if step == 24*time.Hour {
				midnight := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, inNewYork())
				if _, _, ok := sessionOn(midnight); ok {
					add(midnight, 200, 199)
				}
				continue
			}
			local := at.In(inNewYork())
			weekend := local.Weekday() == time.Saturday || local.Weekday() == time.Sunday
			switch opens, closes, ok := sessionOn(local); {
			case weekend || local.Hour() < 9 || local.Hour() > 16:
			case !ok || !at.Add(step).After(opens) || !at.Before(closes):
				add(at, 190, 189) // outside
			case at.Before(opens):
				add(at, 200, 189) // partly before the opening
			default:
				add(at, 200, 199)
			}
		}
		fmt.Fprintf(w, `{"bars":{%q:[%s]},"next_page_token":null}`, symbol, strings.Join(rows, ","))
	})
	mux.HandleFunc("GET /v1beta1/news", func(w http.ResponseWriter, r *http.Request) {
		item := func(id int, headline string, age time.Duration, symbol string) any {
			at := now().Add(-age).Format(time.RFC3339)
			return map[string]any{"id": id, "headline": headline, "created_at": at, "symbols": []string{symbol}}
		}
		json.NewEncoder(w).Encode(map[string]any{"news": []any{
			item(7, "Apple beats estimates", time.Hour, "AAPL"),
			item(8, "From tomorrow", -24*time.Hour, "AAPL"),
			item(9, "Crude draws", time.Minute, "XYZ"),
		}})
	})
	return source.Options{AlpacaURL: markettest.Serve(t, mux.ServeHTTP), AlpacaKey: "k", AlpacaSecret: "s"}
}

func TestStocksHavePricesInTheirSessions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := markettest.ClockAt(markettest.Instant(t, "2026-11-20T16:00:00Z")) // a Friday, 11:00 in New York
	b := newBench(t, c.Now)
	m := b.market(market.Options{Sources: "alpaca"})
	b.feed(Options{Sources: "alpaca", Real: stocks(t, c.Now)})
	for _, tf := range signal.Timeframes {
		s, err := m.Series(t.Context(), "AAPL", tf)
		if err != nil || len(s.Bars) < 300 || s.Source != "alpaca" || s.Ticks || s.Session != sessions.Exchange {
			t.Fatalf("%s: %d bars, %v", tf, len(s.Bars), err)
		}
		for _, bar := range s.Bars {
			if tf != signal.D1 && bar.Low != 199 {
				t.Fatalf("%s: trades outside of sessions count at %s", tf, prices.Time(bar.OpenTime))
			}
			if tf == signal.D1 && bar.OpenTime%prices.FrameMS[prices.D1] != 0 {
				t.Fatalf("a day begins at %s", prices.Time(bar.OpenTime))
			}
		}
	}
	gas, err := m.Series(t.Context(), "natural_gas", signal.H1)
	if err != nil || gas.Proxy != "UNG" || gas.Asset.Class != assets.Commodity {
		t.Errorf("natural gas by %q, %v", gas.Proxy, err)
	}
	// A lifetime continues in the next session.
	end := c.Now().Add(gas.Lifetime(c.Now(), 6*time.Hour, signal.H1))
	if !end.Equal(markettest.Instant(t, "2026-11-23T15:30:00Z")) {
		t.Errorf("6 hours last until %s", end)
	}
	for _, name := range []string{"NONE", "BTC", "EURUSD"} {
		_, err := m.Series(t.Context(), name, signal.H1)
		if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || e.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Add(5*time.Hour + time.Second)
	const opens = "2026-11-23T14:30:00Z"
	_, err = m.Series(t.Context(), "AAPL", signal.H1)
	e := markettest.RunError(t, err)
	if e.Code != signal.MarketClosed || !e.Retryable || !strings.Contains(e.Message, opens) ||
		!c.Now().Add(e.RetryAfter).Equal(markettest.Instant(t, opens)) {
		t.Errorf("after the close: %v", err)
	}
	// At the opening the last bar of Friday is recent. It is read because the clock jumped over its
	// close. The asset was needed in between.
	monday := markettest.Instant(t, opens).Add(time.Minute)
	must(t, b.store.NoteUse(t.Context(), []string{"AAPL"}, monday))
	c.Add(monday.Sub(c.Now()))
	b.await(m, "bars at the opening", "AAPL", signal.H1, func(s market.Snapshot) bool {
		return s.Bars[len(s.Bars)-1].CloseTime == markettest.Instant(t, "2026-11-20T21:00:00Z").UnixMilli()
	})
}

func TestNewsBelongToTheirAssets(t *testing.T) {
	t.Parallel()
	c := markettest.ClockAt(markettest.Instant(t, "2026-11-20T16:00:00Z"))
	b := newBench(t, c.Now)
	feed := markettest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprint(w, `<rss version="2.0"><channel><title>t</title>
<item><guid>1</guid><title>Bitcoin breaks below support</title><pubDate>Fri, 20 Nov 2026 15:00:00 GMT</pubDate></item>
<item><guid>2</guid><title>Markets wait</title><description>Analysts look at Nvidia.</description>
<pubDate>Fri, 20 Nov 2026 15:10:00 GMT</pubDate></item>
<item><guid>3</guid><title>Nothing of interest: popcorn</title><pubDate>Fri, 20 Nov 2026 15:20:00 GMT</pubDate></item>
<item><guid>4</guid><title>Bitcoin of long ago</title><pubDate>Fri, 20 Nov 2020 15:20:00 GMT</pubDate></item>
</channel></rss>`)
	})
	o := Options{Sources: "alpaca", Real: stocks(t, c.Now)}
	o.Real.News = []string{feed + "=0.5"}
	m := b.market(market.Options{Sources: "alpaca"})
	stop := b.feed(o)
	since := c.Now().Add(-24 * time.Hour).UnixMilli()
	headline := func(asset string) string {
		items, err := m.News(t.Context(), asset, since)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, i := range items {
			all = append(all, fmt.Sprintf("%s %v %v", i.Headline, i.Weight, i.Relevance))
		}
		return strings.Join(all, "; ")
	}
	want := map[string]string{
		"BTC": "Bitcoin breaks below support 0.5 1", "NVDA": "Markets wait 0.5 0.5",
		"AAPL": "Apple beats estimates 1 1", "oil": "Crude draws 1 1", "corn": "",
	}
	for asset, text := range want {
		markettest.Eventually(t, asset, func() bool { return headline(asset) == text })
	}
	// Another feeder reads the same items again.
	stop()
	o.Node = "two"
	b.feed(o)
	markettest.Eventually(t, "the second read", func() bool {
		return b.server.Client().XLen(t.Context(), keys.MarketNewsKey()).Val() >= 8
	})
	for asset, text := range want {
		if got := headline(asset); got != text {
			t.Errorf("%s: %q, want %q", asset, got, text)
		}
	}
}

// listenerActor sends the end of its alert to a channel.
type listenerActor struct{ ends chan any }

func (l *listenerActor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case alerts.Reached, alerts.Expired:
		l.ends <- m
	}
}

// A level that is reached during an outage is found in bars, before a later tick may reach the other one.
func TestLevelReachedInAGapIsFound(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance", "BTCUSDT")
	m, _ := b.start()
	sys := engine.NewSystem(engine.Options{})
	t.Cleanup(func() { sys.Shutdown(context.Background()) })
	start := b.Now().UnixMilli()
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	price := markettest.PriceAt(start) // rises by 1 a minute, and bars reach 5 beyond
	b.Add(time.Second)
	markettest.Eventually(t, "a trade", func() bool {
		b.Trade("BTCUSDT", price, start+500)
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Ticks
	})
	l := &listenerActor{ends: make(chan any, 10)}
	ref := sys.Spawn(engine.Signal, "listener", func() engine.Actor { return l }, engine.Supervision{})
	// The bar of the second minute reaches the lower level; no tick will.
	alert := alerts.Alert{Ref: ref, Lower: price + 1 - 5, Upper: price + 100, Frame: signal.M1,
		Since: start + 600, Expires: start + 3_600_000}
	must(t, m.Alerts.Alert(t.Context(), "BTC", []alerts.Alert{alert}))
	b.cut(3 * time.Minute)
	b.reconnect()
	now := b.Now().UnixMilli()
	markettest.Eventually(t, "the level is found", func() bool {
		b.Trade("BTCUSDT", price+101, now)
		return len(l.ends) > 0
	})
	got, ok := (<-l.ends).(alerts.Reached)
	if !ok || got.Bar == nil || got.Bar.OpenTime != start+60_000 || !got.Past {
		t.Errorf("%+v", got)
	}
}
