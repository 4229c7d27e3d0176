package coinbase

import (
	"fmt"
	"net/http"
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
	return NewClient(markettest.Serve(t, f), fetch.New(fetch.Options{Name: Name}))
}

func TestBarsAreSorted(t *testing.T) {
	t.Parallel()
	var query string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		// Newest first; one comes twice, one is outside of what was asked for.
		fmt.Fprint(w, `[[7200,9,13,10,12,1.5],[3600,8,12,9,10,2],[3600,8,12,9,10,2],[0,1,1,1,1,1],[10800,1,1,1,1,1]]`)
	})
	bars, err := c.Bars(t.Context(), "BTC-USD", signal.H1, 3600_000, 10_800_000)
	want := []marketdata.Bar{{OpenTime: 3600_000, CloseTime: 7200_000, Low: 8, High: 12, Open: 9, Close: 10, Volume: 2},
		{OpenTime: 7200_000, CloseTime: 10_800_000, Low: 9, High: 13, Open: 10, Close: 12, Volume: 1.5}}
	if d := cmp.Diff(want, bars); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if query != "/products/BTC-USD/candles?end=1970-01-01T02%3A59%3A59Z&granularity=3600&start=1970-01-01T01%3A00%3A00Z" {
		t.Error(query)
	}
}

func TestBarsComeInPages(t *testing.T) {
	t.Parallel()
	pages := 0
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		pages++
		from, _ := time.Parse(time.RFC3339, r.FormValue("start"))
		to, _ := time.Parse(time.RFC3339, r.FormValue("end"))
		text, n := "[", 0
		for at := to.Unix() / 60 * 60; at >= from.Unix(); at -= 60 {
			if n++; n > 1 {
				text += ","
			}
			text += fmt.Sprintf("[%d,1,1,1,1,1]", at)
		}
		if n > pageBars {
			t.Errorf("%d bars are asked for at once", n)
		}
		fmt.Fprint(w, text+"]")
	})
	bars, err := c.Bars(t.Context(), "X", signal.M1, 60_000, 701*60_000)
	if err != nil || len(bars) != 700 || pages != 3 {
		t.Fatalf("%d bars in %d pages, %v", len(bars), pages, err)
	}
	for i, b := range bars {
		if b.OpenTime != int64(i+1)*60_000 {
			t.Fatalf("bar %d opens at %d", i, b.OpenTime)
		}
	}
}

func TestBarsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	markettest.CheckUnreadable(t, map[string]markettest.Unreadable{
		"unknown product": {Status: 404, Body: `{"message":"NotFound"}`},
		"bad granularity": {Status: 400, Body: `{"message":"Unsupported granularity"}`, Kind: fetch.Refused},
		"truncated":       {Status: 200, Body: `[[60,1,1,1`, Kind: fetch.Content},
		"null":            {Status: 200, Body: `null`, Kind: fetch.Content},
		"null value":      {Status: 200, Body: `[[60,1,1,null,1,1]]`, Kind: fetch.Content},
		"null row":        {Status: 200, Body: `[null]`, Kind: fetch.Content},
		"text":            {Status: 200, Body: `[[60,"1",1,1,1,1]]`, Kind: fetch.Content},
		"object":          {Status: 200, Body: `{}`, Kind: fetch.Content},
	}, func(f http.HandlerFunc) markettest.Client { return newClient(t, f) })
}

func FuzzDecodeCandles(f *testing.F) {
	f.Add([]byte(`[[60,1,2,1,1,1]]`))
	f.Fuzz(func(t *testing.T, data []byte) { decodeCandles(data, 60_000) })
}
