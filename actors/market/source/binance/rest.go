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

// Name is the source's.
const Name = "binance"

const (
	// BaseURL serves public market data only.
	BaseURL = "https://data-api.binance.vision"
	// pageLimit is how many bars an answer has at most, pageWeight what it costs of the
	// weight that an address has: 6,000 a minute.
	pageLimit  = 1000
	pageWeight = 2
	// maxPages bounds the answers that one call asks for.
	maxPages = 20
	// codeSymbol is the code for a symbol that the exchange does not have.
	codeSymbol = -1121
)

// Client asks by REST.
type Client struct {
	base string
	c    *fetch.Client
}

// NewClient returns a client for the server at base, without a slash at its end.
func NewClient(base string, c *fetch.Client) *Client { return &Client{base, c} }

// Ping asks for the time of the server, in milliseconds since 1970.
func (c *Client) Ping(ctx context.Context) (int64, error) {
	a, err := c.c.Get(ctx, fetch.Request{URL: c.base + "/api/v3/time"})
	if err != nil {
		return 0, err
	}
	var t struct {
		ServerTime int64 `json:"serverTime"`
	}
	if err := json.Unmarshal(a.Body, &t); err != nil {
		return 0, c.c.Undecodable(err)
	}
	return t.ServerTime, nil
}

// Bars returns the bars of a symbol that open in [from, to), in the exchange's order.
// The last one may be open still: then it closes after now, by the caller's clock. The
// error is fetch.ErrUnknown, a *fetch.Error or that of ctx.
func (c *Client) Bars(ctx context.Context, symbol string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error) {
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

// listWeight is what the prices of all symbols cost.
const listWeight = 4

// Listed returns all symbols that the exchange has a price of.
func (c *Client) Listed(ctx context.Context) ([]string, error) {
	a, err := c.c.Get(ctx, fetch.Request{URL: c.base + "/api/v3/ticker/price", Cost: listWeight})
	if err != nil {
		return nil, err
	}
	symbols, err := decodeListed(a.Body)
	if err != nil {
		return nil, c.c.Undecodable(err)
	}
	return symbols, nil
}

// decodeListed reads the symbols of a list of prices.
func decodeListed(body []byte) ([]string, error) {
	var rows []struct {
		Symbol string `json:"symbol"`
	}
	if err := json.Unmarshal(body, &rows); err != nil {
		return nil, fmt.Errorf("decode symbols: %w", err)
	}
	symbols := make([]string, 0, len(rows))
	for _, r := range rows {
		if r.Symbol != "" {
			symbols = append(symbols, r.Symbol)
		}
	}
	if len(symbols) == 0 {
		return nil, errors.New("decode symbols: there are none")
	}
	return symbols, nil
}

// asUnknown returns fetch.ErrUnknown if the exchange has said so with err.
func asUnknown(err error) error {
	fault, ok := errors.AsType[*fetch.Error](err)
	if !ok || fault.Kind != fetch.Refused {
		return err
	}
	var said struct {
		Code int    `json:"code"`
		Msg  string `json:"msg"`
	}
	if json.Unmarshal(fault.Body, &said) == nil && said.Code == codeSymbol {
		return fetch.ErrUnknown
	}
	if fault.Cause == nil && said.Code != 0 {
		fault.Cause = fmt.Errorf("error %d: %.200s", said.Code, said.Msg)
	}
	return fault
}
