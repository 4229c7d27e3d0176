package coinbase

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func readBars(t *testing.T, f http.HandlerFunc) markettest.ReadBars {
	t.Helper()
	return NewClient(markettest.Serve(t, f), fetch.New(fetch.Options{Name: Name})).Bars
}

func TestBarsAreSorted(t *testing.T) {
	t.Parallel()
	markettest.Request{
		// The newest comes first, one comes twice, and one was not requested.
		Answer: `[[7200,9,13,10,12,1.5],[3600,8,12,9,10,2],[3600,8,12,9,10,2],[0,1,1,1,1,1],[10800,1,1,1,1,1]]`,
		Symbol: "BTC-USD", Frame: signal.H1, From: 3600_000, To: 10_800_000,
		URI: "/products/BTC-USD/candles?end=1970-01-01T02%3A59%3A59Z&granularity=3600&start=1970-01-01T01%3A00%3A00Z",
		Bars: []marketdata.Bar{
			{OpenTime: 3600_000, CloseTime: 7200_000, Low: 8, High: 12, Open: 9, Close: 10, Volume: 2},
			{OpenTime: 7200_000, CloseTime: 10_800_000, Low: 9, High: 13, Open: 10, Close: 12, Volume: 1.5},
		},
	}.CheckBars(t, readBars)
}

func TestBarsComeInPages(t *testing.T) {
	t.Parallel()
	markettest.CheckPages(t, 700, func(r *http.Request) string {
		from, to := markettest.Instant(t, r.FormValue("start")), markettest.Instant(t, r.FormValue("end"))
		var rows []string
		for at := to.Unix() / 60 * 60; at >= from.Unix(); at -= 60 {
			rows = append(rows, fmt.Sprintf("[%d,1,1,1,1,1]", at))
		}
		if len(rows) > pageBars {
			t.Errorf("%d bars are requested at once", len(rows))
		}
		return "[" + strings.Join(rows, ",") + "]"
	}, readBars)
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
	}, readBars)
}

func FuzzDecodeCandles(f *testing.F) {
	f.Add([]byte(`[[60,1,2,1,1,1]]`))
	f.Fuzz(func(t *testing.T, data []byte) { decodeCandles(data, 60_000) })
}
