// Package coinbase reads bars of the Coinbase exchange by REST. It needs no key. The caller decides
// whether a price is plausible.
package coinbase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// Name is the name of the source.
	Name = "coinbase"
	// BaseURL serves public market data only.
	BaseURL = "https://api.exchange.coinbase.com"
	// pageBars is the maximum number of bars in an answer, maxPages that of answers in a call.
	pageBars = 300
	maxPages = 20
)

// Client sends REST requests.
type Client struct {
	base string
	c    *fetch.Client
}

// NewClient returns a client for the server at base, without a slash at its end.
func NewClient(base string, c *fetch.Client) *Client { return &Client{base, c} }

// Ping returns the time of the server in milliseconds since 1970.
func (c *Client) Ping(ctx context.Context) (int64, error) {
	var t struct {
		ISO time.Time `json:"iso"`
	}
	if err := c.c.GetJSON(ctx, fetch.Request{URL: c.base + "/time"}, &t); err != nil {
		return 0, err
	}
	return t.ISO.UnixMilli(), nil
}

// Bars returns the bars of a product that open in [from, to), ascending, without those of times without
// trades. The last one may still be open. The error is fetch.ErrUnknown, a *fetch.Error or that of ctx.
func (c *Client) Bars(ctx context.Context, product string, tf signal.Timeframe, from, to int64) (
	[]marketdata.Bar, error) {
	step := tf.Duration().Milliseconds()
	from -= from % step
	var all []marketdata.Bar
	for range maxPages {
		if from >= to {
			break
		}
		end := min(from+(pageBars-1)*step, to-1) // both ends are included
		query := url.Values{"granularity": {strconv.FormatInt(step/1000, 10)}, "start": {iso(from)}, "end": {iso(end)}}
		address := c.base + "/products/" + url.PathEscape(product) + "/candles?" + query.Encode()
		a, err := c.c.Get(ctx, fetch.Request{URL: address})
		if err != nil {
			return nil, asUnknown(err)
		}
		page, err := decodeCandles(a.Body, step)
		if err != nil {
			return nil, c.c.Undecodable(err)
		}
		for _, b := range page {
			if from <= b.OpenTime && b.OpenTime < to && (len(all) == 0 || b.OpenTime > all[len(all)-1].OpenTime) {
				all = append(all, b)
			}
		}
		from += pageBars * step
	}
	return all, nil
}

func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// decodeCandles decodes rows of time in seconds, low, high, open, close and volume, in any order.
// null is an error.
func decodeCandles(body []byte, step int64) ([]marketdata.Bar, error) {
	var rows [][]*float64
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("decode candles: %w", err)
	}
	if rows == nil {
		return nil, errors.New("decode candles: not a list")
	}
	bars := make([]marketdata.Bar, 0, len(rows))
	for i, r := range rows {
		if len(r) < 6 || slices.Contains(r[:6], nil) {
			return nil, fmt.Errorf("decode candle %d: a value is missing", i)
		}
		open := int64(*r[0]) * 1000
		bars = append(bars, marketdata.Bar{
			OpenTime: open, CloseTime: open + step,
			Low: *r[1], High: *r[2], Open: *r[3], Close: *r[4], Volume: *r[5],
		})
	}
	slices.SortFunc(bars, func(a, b marketdata.Bar) int { return cmp.Compare(a.OpenTime, b.OpenTime) })
	return bars, nil
}

// Listed returns the ids of all products.
func (c *Client) Listed(ctx context.Context) ([]string, error) {
	return c.c.GetNames(ctx, fetch.Request{URL: c.base + "/products"}, "id")
}

// asUnknown returns fetch.ErrUnknown if err reports an unknown product, else err.
func asUnknown(err error) error {
	fault, ok := errors.AsType[*fetch.Error](err)
	if !ok || fault.Kind != fetch.Refused {
		return err
	}
	if fault.Status == http.StatusNotFound {
		return fetch.ErrUnknown
	}
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(fault.Body, &answer) == nil && answer.Message != "" {
		if strings.EqualFold(answer.Message, "NotFound") {
			return fetch.ErrUnknown
		}
		fault.Cause = fmt.Errorf("%.200s", answer.Message)
	}
	return fault
}
