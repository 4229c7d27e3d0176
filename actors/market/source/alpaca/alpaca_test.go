package alpaca

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func newClient(t *testing.T, f http.HandlerFunc) *Client {
	t.Helper()
	url := markettest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("APCA-API-KEY-ID") != "key" || r.Header.Get("APCA-API-SECRET-KEY") != "secret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		f(w, r)
	})
	return NewClient(url, "iex", fetch.New(fetch.Options{Name: Name, Header: Header("key", "secret")}))
}

func TestBarsComeInPages(t *testing.T) {
	t.Parallel()
	var first string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("page_token") == "" {
			first = r.URL.RequestURI()
			fmt.Fprint(w, `{"bars":{"AAPL":[{"t":"2025-01-02T14:30:00Z","o":1,"h":3,"l":0.5,"c":2,"v":10,"n":4}]},
				"next_page_token":"p2"}`)
			return
		}
		fmt.Fprint(w, `{"bars":{"AAPL":[{"t":"2025-01-02T14:31:00Z","o":2,"h":3,"l":2,"c":2.5}]},
			"next_page_token":null}`)
	})
	bars, err := c.Bars(t.Context(), "AAPL", signal.M1, 1735828200000, 1735828320000)
	want := []marketdata.Bar{
		{OpenTime: 1735828200000, CloseTime: 1735828260000, Open: 1, High: 3, Low: .5, Close: 2, Volume: 10},
		{OpenTime: 1735828260000, CloseTime: 1735828320000, Open: 2, High: 3, Low: 2, Close: 2.5},
	}
	if d := cmp.Diff(want, bars); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if first != "/v2/stocks/bars?adjustment=split&end=2025-01-02T14%3A31%3A59Z&feed=iex&limit=10000"+
		"&start=2025-01-02T14%3A30%3A00Z&symbols=AAPL&timeframe=1Min" {
		t.Error(first)
	}
}

func TestBarsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	bar := func(fields string) string { return `{"bars":{"X":[{"h":3,"l":1,"c":2,"v":1,` + fields + `}]}}` }
	markettest.CheckUnreadable(t, map[string]markettest.Unreadable{
		"invalid symbol": {Status: 400, Body: `{"message":"invalid symbol"}`},
		"keys refused":   {Status: 401, Body: `{"message":"unauthorized"}`, Kind: fetch.Refused},
		"truncated":      {Status: 200, Body: `{"bars":{"X":[{"t":"20`, Kind: fetch.Content},
		"null price":     {Status: 200, Body: bar(`"t":"2025-01-02T14:30:00Z","o":null`), Kind: fetch.Content},
		"no time":        {Status: 200, Body: bar(`"o":1`), Kind: fetch.Content},
		"a list":         {Status: 200, Body: `[]`, Kind: fetch.Content},
	}, func(t *testing.T, f http.HandlerFunc) markettest.ReadBars { return newClient(t, f).Bars })
	client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"bars":null,"next_page_token":null}`)
	})
	if bars, err := client.Bars(t.Context(), "AAPL", signal.M1, 0, 60_000); len(bars) != 0 || err != nil {
		t.Errorf("a name without bars: %v, %v", bars, err)
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	var query string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RequestURI()
		if strings.Contains(query, "MSFT") { // always another page
			fmt.Fprintf(w, `{"news":[{"id":1},{"id":2}],"next_page_token":"more%s"}`, r.FormValue("page_token"))
			return
		}
		fmt.Fprint(w, `{"news":[{"id":24843171,"headline":"Apple beats","summary":"More.","symbols":["AAPL","TSLA"],
			"created_at":"2025-01-02T14:00:00Z","url":"https://example.com/1"},{"id":2,"created_at":"yesterday"},
			{"id":"x"},{"id":3,"symbols":"AAPL"},[],null],"next_page_token":null}`)
	})
	items, malformed, err := c.News(t.Context(), "AAPL", 1735826400000, 1000)
	want := []Item{{ID: "24843171", Headline: "Apple beats", Summary: "More.", Symbols: []string{"AAPL", "TSLA"},
		CreatedAt: time.UnixMilli(1735826400000).UTC()}}
	if d := cmp.Diff(want, items); d != "" || malformed != 5 || err != nil {
		t.Errorf("%d malformed, %v\n%s", malformed, err, d)
	}
	if query != "/v1beta1/news?limit=50&sort=desc&start=2025-01-02T14%3A00%3A00Z&symbols=AAPL" {
		t.Error(query)
	}
	items, malformed, err = c.News(t.Context(), "MSFT", 0, 5)
	if err != nil || malformed != 0 || len(items) != 5 || !strings.Contains(query, "page_token=moremore&") {
		t.Errorf("%d items of pages, %v, the last by %s", len(items), err, query)
	}
}
