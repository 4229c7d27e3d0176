// Package alpaca reads bars of American stocks, and news, from the data service of that
// name, which needs keys. What is returned is decoded, not judged.
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
	// Name is the source's.
	Name = "alpaca"
	// BaseURL is that of the data service.
	BaseURL = "https://data.alpaca.markets"
	// pageBars is how many bars an answer has at most, maxPages how many answers one
	// call asks for: bars outside of sessions are among them.
	pageBars = 10_000
	maxPages = 10
	// pageNews is how many items an answer has at most.
	pageNews = 50
)

// frames are the service's names of timeframes.
var frames = map[signal.Timeframe]string{signal.M1: "1Min", signal.M5: "5Min", signal.H1: "1Hour", signal.D1: "1Day"}

// Client asks by REST.
type Client struct {
	base, feed string
	c          *fetch.Client
}

// Header returns what must be sent with every request.
func Header(key, secret string) http.Header {
	h := http.Header{}
	h.Set("APCA-API-KEY-ID", key)
	h.Set("APCA-API-SECRET-KEY", secret)
	return h
}

// NewClient returns a client for the server at base, without a slash at its end. feed
// is iex or sip.
func NewClient(base, feed string, c *fetch.Client) *Client { return &Client{base, feed, c} }

// bars is an answer.
type bars struct {
	Bars map[string][]struct {
		T          time.Time `json:"t"`
		O, H, L, C *float64
		V          *float64
	} `json:"bars"`
	Next *string `json:"next_page_token"`
}

// Bars returns the bars of a symbol that open in [from, to), ascending, of the time
// outside of sessions too. A bar of 1d opens at midnight in New York. The last one may
// be open still. The error is fetch.ErrUnknown, a *fetch.Error or that of ctx.
func (c *Client) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error) {
	query := url.Values{"symbols": {symbol}, "timeframe": {frames[tf]}, "start": {iso(from)}, "end": {iso(to - 1)},
		"limit": {strconv.Itoa(pageBars)}, "adjustment": {"split"}, "feed": {c.feed}}
	var all []marketdata.Bar
	for range maxPages {
		a, err := c.c.Get(ctx, fetch.Request{URL: c.base + "/v2/stocks/bars?" + query.Encode()})
		if err != nil {
			return nil, asUnknown(err)
		}
		var page bars
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return nil, c.c.Undecodable(fmt.Errorf("decode bars: %w", err))
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
	URL       string      `json:"url"`
}

// News returns what was reported of symbols, of all if none are given, since a time in
// milliseconds: at most so many items, the newest first. The error is a *fetch.Error or
// that of ctx.
func (c *Client) News(ctx context.Context, symbols string, since int64, most int) ([]Item, error) {
	query := url.Values{"start": {iso(since)}, "limit": {strconv.Itoa(min(most, pageNews))}, "sort": {"desc"}}
	if symbols != "" {
		query.Set("symbols", symbols)
	}
	var all []Item
	for {
		a, err := c.c.Get(ctx, fetch.Request{URL: c.base + "/v1beta1/news?" + query.Encode()})
		if err != nil {
			return nil, asUnknown(err)
		}
		var page struct {
			News []Item  `json:"news"`
			Next *string `json:"next_page_token"`
		}
		if err := json.Unmarshal(a.Body, &page); err != nil {
			return nil, c.c.Undecodable(fmt.Errorf("decode news: %w", err))
		}
		all = append(all, page.News...)
		if page.Next == nil || *page.Next == "" || len(page.News) == 0 || len(all) >= most {
			return all[:min(len(all), most)], nil
		}
		query.Set("page_token", *page.Next)
	}
}

func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// asUnknown returns fetch.ErrUnknown if the service has said so with err: it refuses names
// that can be no symbol, and has no bars of others.
func asUnknown(err error) error {
	fault, ok := errors.AsType[*fetch.Error](err)
	if !ok || fault.Kind != fetch.Refused {
		return err
	}
	if fault.Status == http.StatusUnprocessableEntity || fault.Status == http.StatusNotFound || fault.Status == http.StatusBadRequest {
		return fetch.ErrUnknown
	}
	return fault
}
