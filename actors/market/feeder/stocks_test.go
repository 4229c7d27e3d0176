package feeder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// sessionOn returns the session of the exchange on a day in New York, or false if there
// is none.
func sessionOn(day time.Time) (opens, closes time.Time, ok bool) {
	y, m, d := day.In(inNewYork()).Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, inNewYork())
	opens, closes = sessions.Exchange.Span(midnight)
	return opens, closes, opens.Before(midnight.AddDate(0, 0, 1))
}

// stocks is a server that speaks as Alpaca does: bars of 1m from 9:00 to 17:00 in New
// York, of which those before and after the session must not count.
func stocks(t *testing.T, now func() time.Time) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/stocks/bars", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		from, _ := time.Parse(time.RFC3339, r.FormValue("start"))
		to, _ := time.Parse(time.RFC3339, r.FormValue("end"))
		step := map[string]time.Duration{"1Min": time.Minute, "5Min": 5 * time.Minute, "1Hour": time.Hour, "1Day": 24 * time.Hour}[r.FormValue("timeframe")]
		symbol := r.FormValue("symbols")
		var rows []string
		for at := from.Truncate(step); !at.After(to) && !at.After(now()) && symbol != "NONE"; at = at.Add(step) {
			local, price := at.In(inNewYork()), 200.0
			if w := local.Weekday(); step < 24*time.Hour && (w == time.Saturday || w == time.Sunday || local.Hour() < 9 || local.Hour() > 16) {
				continue
			}
			if step == 24*time.Hour {
				midnight := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, inNewYork())
				if _, _, ok := sessionOn(midnight); !ok {
					continue
				}
				rows = append(rows, fmt.Sprintf(`{"t":%q,"o":%v,"h":%v,"l":%v,"c":%v,"v":5}`, midnight.UTC().Format(time.RFC3339), price, price+1, price-1, price))
				continue
			}
			low := price - 1
			switch opens, closes, ok := sessionOn(local); {
			case !ok || !at.Add(step).After(opens) || !at.Before(closes):
				price, low = 190, 189 // outside
			case at.Before(opens):
				low = 189 // before the opening
			}
			rows = append(rows, fmt.Sprintf(`{"t":%q,"o":%v,"h":%v,"l":%v,"c":%v,"v":5}`, at.UTC().Format(time.RFC3339), price, price+1, low, price))
		}
		fmt.Fprintf(w, `{"bars":{%q:[%s]},"next_page_token":null}`, symbol, strings.Join(rows, ","))
	})
	mux.HandleFunc("GET /v1beta1/news", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"news": []any{
			map[string]any{"id": 7, "headline": "Apple beats estimates", "created_at": now().Add(-time.Hour).Format(time.RFC3339), "symbols": []string{"AAPL"}},
			map[string]any{"id": 8, "headline": "From tomorrow", "created_at": now().Add(24 * time.Hour).Format(time.RFC3339), "symbols": []string{"AAPL"}},
			map[string]any{"id": 9, "headline": "Crude draws", "created_at": now().Add(-time.Minute).Format(time.RFC3339), "symbols": []string{"XYZ"}}}})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestStocksAreKnownInTheirSessions(t *testing.T) {
	t.Parallel()
	c := markettest.ClockAt(markettest.Instant(t, "2026-11-20T16:00:00Z")) // a Friday, 11:00 in New York
	b := newBench(t, c.Now)
	server := stocks(t, c.Now)
	o := source.Options{AlpacaURL: server.URL, AlpacaKey: "k", AlpacaSecret: "s"}
	m := b.market(market.Options{Sources: "alpaca"})
	b.feed(Options{Sources: "alpaca", Real: o})
	for _, tf := range signal.Timeframes {
		s, err := m.Series(t.Context(), "AAPL", tf)
		if err != nil || len(s.Bars) < 300 || s.Source != "alpaca" || s.Ticks || s.Session != sessions.Exchange {
			t.Fatalf("%s: %d bars, %v", tf, len(s.Bars), err)
		}
		for _, bar := range s.Bars {
			if tf != signal.D1 && bar.Low != 199 {
				t.Fatalf("%s: what was traded outside of sessions counts at %s", tf, prices.Time(bar.OpenTime))
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
	// A lifetime goes on with the next session.
	if got := gas.Lifetime(c.Now(), 6*time.Hour, signal.H1); !c.Now().Add(got).Equal(markettest.Instant(t, "2026-11-23T15:30:00Z")) {
		t.Errorf("6 hours last until %s", c.Now().Add(got))
	}
	for _, name := range []string{"NONE", "BTC", "EURUSD"} {
		_, err := m.Series(t.Context(), name, signal.H1)
		if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.DataUnavailable || e.Retryable {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Add(5*time.Hour + time.Second)
	_, err = m.Series(t.Context(), "AAPL", signal.H1)
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok || e.Code != signal.MarketClosed || !e.Retryable || !strings.Contains(e.Message, "2026-11-23T14:30:00Z") ||
		!c.Now().Add(e.RetryAfter).Equal(markettest.Instant(t, "2026-11-23T14:30:00Z")) {
		t.Errorf("after the close: %v", err)
	}
	// At the opening the last bar of Friday is not old: it is read, since the clock has
	// jumped over its close. Somebody has needed the asset meanwhile.
	if err := b.store.NoteUse(t.Context(), []string{"AAPL"}, markettest.Instant(t, "2026-11-23T14:31:00Z")); err != nil {
		t.Fatal(err)
	}
	c.Add(markettest.Instant(t, "2026-11-23T14:31:00Z").Sub(c.Now()))
	markettest.Eventually(t, "bars at the opening", func() bool {
		s, err := m.Series(t.Context(), "AAPL", signal.H1)
		return err == nil && s.Bars[len(s.Bars)-1].CloseTime == markettest.Instant(t, "2026-11-20T21:00:00Z").UnixMilli()
	})
}

func TestNewsAreFiledUnderTheirAssets(t *testing.T) {
	t.Parallel()
	c := markettest.ClockAt(markettest.Instant(t, "2026-11-20T16:00:00Z"))
	b := newBench(t, c.Now)
	server := stocks(t, c.Now)
	feed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprint(w, `<rss version="2.0"><channel><title>t</title>
<item><guid>1</guid><title>Bitcoin breaks below support</title><pubDate>Fri, 20 Nov 2026 15:00:00 GMT</pubDate></item>
<item><guid>2</guid><title>Markets wait</title><description>Analysts look at Nvidia.</description><pubDate>Fri, 20 Nov 2026 15:10:00 GMT</pubDate></item>
<item><guid>3</guid><title>Nothing of interest: popcorn</title><pubDate>Fri, 20 Nov 2026 15:20:00 GMT</pubDate></item>
<item><guid>4</guid><title>Bitcoin of long ago</title><pubDate>Fri, 20 Nov 2020 15:20:00 GMT</pubDate></item>
</channel></rss>`)
	}))
	defer feed.Close()
	m := b.market(market.Options{Sources: "alpaca"})
	stop := b.feed(Options{Sources: "alpaca", Real: source.Options{AlpacaURL: server.URL, AlpacaKey: "k", AlpacaSecret: "s", News: []string{feed.URL + "=0.5"}}})
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
	want := map[string]string{"BTC": "Bitcoin breaks below support 0.5 1", "NVDA": "Markets wait 0.5 0.5", "AAPL": "Apple beats estimates 1 1",
		"oil": "Crude draws 1 1", "corn": ""}
	for asset, text := range want {
		markettest.Eventually(t, asset, func() bool { return headline(asset) == text })
	}
	// Another feeder reads the same again.
	stop()
	b.feed(Options{Node: "two", Sources: "alpaca", Real: source.Options{AlpacaURL: server.URL, AlpacaKey: "k", AlpacaSecret: "s", News: []string{feed.URL + "=0.5"}}})
	markettest.Eventually(t, "the second reading", func() bool { return b.server.Client().XLen(t.Context(), "{market}:news").Val() >= 8 })
	for asset, text := range want {
		if got := headline(asset); got != text {
			t.Errorf("%s: %q, want %q", asset, got, text)
		}
	}
}

// listenerActor hands what its alert tells to a channel.
type listenerActor struct{ told chan any }

func (l *listenerActor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case alerts.Reached, alerts.Expired:
		l.told <- m
	}
}

// A level that was reached while there was no connection is found in bars, before a
// later tick may reach the other one.
func TestALevelReachedInAGapIsNotMissed(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT")
	sys := engine.NewSystem(engine.Options{})
	t.Cleanup(func() { sys.Shutdown(context.Background()) })
	m := market.New(sys, market.Options{Store: b.store, Now: c.Now, Sources: "binance"})
	b.background(m.Run)
	b.feed(Options{Sources: "binance", Real: exchangeOptions(x)})
	start := c.Now().UnixMilli()
	if _, err := m.Series(t.Context(), "BTC", signal.M1); err != nil {
		t.Fatal(err)
	}
	price := markettest.PriceAt(start) // rises by 1 a minute, and bars reach 5 beyond
	c.Add(time.Second)
	markettest.Eventually(t, "a trade", func() bool {
		x.Trade("BTCUSDT", price, start+500)
		s, err := m.Series(t.Context(), "BTC", signal.M1)
		return err == nil && s.Ticks
	})
	l := &listenerActor{told: make(chan any, 10)}
	ref := sys.Spawn(engine.Signal, "listener", func() engine.Actor { return l }, engine.Supervision{})
	// The bar of the second minute reaches the lower level; no tick will.
	err := m.Alert(t.Context(), "BTC", []alerts.Alert{{Ref: ref, Lower: price + 1 - 5, Upper: price + 100, Since: start + 600,
		Expires: start + 3_600_000, Frame: signal.M1}})
	if err != nil {
		t.Fatal(err)
	}
	x.Cut()
	markettest.Eventually(t, "the connection is lost", func() bool { return !x.Follows("BTCUSDT") })
	c.Add(3 * time.Minute)
	x.Accept()
	markettest.Eventually(t, "the connection is back", func() bool { return x.Follows("BTCUSDT") })
	now := c.Now().UnixMilli()
	markettest.Eventually(t, "the level is found", func() bool {
		x.Trade("BTCUSDT", price+101, now)
		return len(l.told) > 0
	})
	got, ok := (<-l.told).(alerts.Reached)
	if !ok || got.Bar == nil || got.Bar.OpenTime != start+60_000 || !got.Past {
		t.Errorf("%+v", got)
	}
}
