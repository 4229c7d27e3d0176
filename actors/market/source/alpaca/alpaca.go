// Package alpaca reads bars of American stocks and news from the Alpaca data service, which needs
// keys. The caller decides whether a price is plausible.
package alpaca

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// Name is the name of the source.
	Name    = "alpaca"
	BaseURL = "https://data.alpaca.markets"
	// pageBars is the maximum number of bars in an answer, with those outside of sessions, and
	// maxPages that of answers in a call.
	pageBars = 10_000
	maxPages = 10
	// pageNews is the maximum number of items in an answer.
	pageNews = 50
)

// frames holds the service's names of timeframes.
var frames = map[signal.Timeframe]string{signal.M1: "1Min", signal.M5: "5Min", signal.H1: "1Hour", signal.D1: "1Day"}

// Client sends REST requests.
type Client struct {
	base, feed string
	c          *fetch.Client
}

// Header returns the header of every request.
func Header(key, secret string) http.Header {
	h := http.Header{}
	h.Set("APCA-API-KEY-ID", key)
	h.Set("APCA-API-SECRET-KEY", secret)
	return h
}

// NewClient returns a client for the server at base, without a slash at its end. feed is iex or sip.
func NewClient(base, feed string, c *fetch.Client) *Client { return &Client{base, feed, c} }

type bars struct {
	Bars map[string][]struct {
		T          time.Time `json:"t"`
		O, H, L, C *float64
		V          *float64
	} `json:"bars"`
	Next *string `json:"next_page_token"`
}

// Bars returns the bars of a symbol that open in [from, to), ascending, with those outside of
// sessions. A bar of 1d opens at midnight in New York. The last one may still be open. The error is
// fetch.ErrUnknown, a *fetch.Error or that of ctx.
func (c *Client) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) (
	[]marketdata.Bar, error) {
	query := url.Values{"symbols": {symbol}, "timeframe": {frames[tf]}, "start": {iso(from)}, "end": {iso(to - 1)},
		"limit": {strconv.Itoa(pageBars)}, "adjustment": {"split"}, "feed": {c.feed}}
	var all []marketdata.Bar
	for range maxPages {
		var page bars
		err := c.c.GetJSON(ctx, fetch.Request{URL: c.base + "/v2/stocks/bars?" + query.Encode()}, &page)
		if err != nil {
			return nil, asUnknown(err)
		}
		for i, b := range page.Bars[symbol] {
			if b.O == nil || b.H == nil || b.L == nil || b.C == nil || b.T.IsZero() {
				return nil, c.c.Undecodable(fmt.Errorf("decode bar %d: a value is missing", i))
			}
			bar := marketdata.Bar{OpenTime: b.T.UnixMilli(), Open: *b.O, High: *b.H, Low: *b.L, Close: *b.C}
			bar.CloseTime = bar.OpenTime + tf.Duration().Milliseconds()
			if b.V != nil {
				bar.Volume = *b.V
			}
			all = append(all, bar)
		}
		if page.Next == nil || *page.Next == "" {
			break
		}
		query.Set("page_token", *page.Next)
	}
	return all, nil
}

// Item is a news item.
type Item struct {
	ID        json.Number `json:"id"`
	Headline  string      `json:"headline"`
	Summary   string      `json:"summary"`
	CreatedAt time.Time   `json:"created_at"`
	Symbols   []string    `json:"symbols"`
}

// News returns at most maxItems news items since a time in milliseconds, the newest first, of
// symbols or of all, and how many others could not be read. The error is a *fetch.Error or that of ctx.
func (c *Client) News(ctx context.Context, symbols string, since int64, maxItems int) (
	all []Item, malformed int, err error) {
	query := url.Values{"start": {iso(since)}, "limit": {strconv.Itoa(min(maxItems, pageNews))}, "sort": {"desc"}}
	if symbols != "" {
		query.Set("symbols", symbols)
	}
	for {
		var page struct {
			News []json.RawMessage `json:"news"`
			Next *string           `json:"next_page_token"`
		}
		err := c.c.GetJSON(ctx, fetch.Request{URL: c.base + "/v1beta1/news?" + query.Encode()}, &page)
		if err != nil {
			return nil, 0, asUnknown(err)
		}
		for _, raw := range page.News {
			var item Item
			if err := json.Unmarshal(raw, &item); err != nil || item.ID == "" {
				malformed++
				continue
			}
			all = append(all, item)
		}
		if page.Next == nil || *page.Next == "" || len(page.News) == 0 || len(all)+malformed >= maxItems {
			return all[:min(len(all), maxItems)], malformed, nil
		}
		query.Set("page_token", *page.Next)
	}
}

func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// asUnknown returns fetch.ErrUnknown if err reports an invalid symbol, else err. An unknown symbol
// has no bars.
func asUnknown(err error) error {
	fault, ok := errors.AsType[*fetch.Error](err)
	if !ok || fault.Kind != fetch.Refused {
		return err
	}
	switch fault.Status {
	case http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusBadRequest:
		return fetch.ErrUnknown
	}
	return fault
}
