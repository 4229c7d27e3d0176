package binance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Name is the name of the source.
const Name = "binance"

const (
	// BaseURL serves public market data only.
	BaseURL = "https://data-api.binance.vision"
	// pageLimit is the maximum number of bars in an answer. pageWeight is its cost, and listWeight
	// that of the prices of all symbols, out of a weight of 6,000 a minute for each address.
	pageLimit  = 1000
	pageWeight = 2
	listWeight = 4
	// maxPages bounds the answers of one call.
	maxPages = 20
	// codeSymbol is the error code for an unknown symbol.
	codeSymbol = -1121
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
		ServerTime int64 `json:"serverTime"`
	}
	err := c.c.GetJSON(ctx, fetch.Request{URL: c.base + "/api/v3/time"}, &t)
	return t.ServerTime, err
}

// Bars returns the bars of a symbol that open in [from, to), in the exchange's order. The last one may
// still be open, and then closes after now. The error is fetch.ErrUnknown, a *fetch.Error or that of ctx.
func (c *Client) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) (
	[]marketdata.Bar, error) {
	var all []marketdata.Bar
	for range maxPages {
		query := url.Values{"symbol": {symbol}, "interval": {string(tf)}, "limit": {strconv.Itoa(pageLimit)},
			"startTime": {strconv.FormatInt(from, 10)}, "endTime": {strconv.FormatInt(to-1, 10)}}
		a, err := c.c.Get(ctx, fetch.Request{URL: c.base + "/api/v3/klines?" + query.Encode(), Cost: pageWeight})
		if err != nil {
			return nil, asUnknown(err)
		}
		page, err := decodeKlines(a.Body)
		if err != nil {
			return nil, c.c.Undecodable(err)
		}
		all = append(all, page...)
		if len(page) < pageLimit {
			break
		}
		next := page[len(page)-1].CloseTime
		if next <= from || next >= to {
			break // done, or out of order
		}
		from = next
	}
	return all, nil
}

// Listed returns all symbols of the exchange.
func (c *Client) Listed(ctx context.Context) ([]string, error) {
	return c.c.GetNames(ctx, fetch.Request{URL: c.base + "/api/v3/ticker/price", Cost: listWeight}, "symbol")
}

// asUnknown returns fetch.ErrUnknown if err reports an unknown symbol, else err.
func asUnknown(err error) error {
	fault, ok := errors.AsType[*fetch.Error](err)
	if !ok || fault.Kind != fetch.Refused {
		return err
	}
	var answer struct {
		Code int    `json:"code"`
		Msg  string `json:"msg"`
	}
	if json.Unmarshal(fault.Body, &answer) == nil && answer.Code == codeSymbol {
		return fetch.ErrUnknown
	}
	if fault.Cause == nil && answer.Code != 0 {
		fault.Cause = fmt.Errorf("error %d: %.200s", answer.Code, answer.Msg)
	}
	return fault
}
