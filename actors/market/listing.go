package market

import (
	"context"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/coinbase"
)

const (
	// listEvery is how often a source is asked what it lists, listRetry the pause after a
	// failure, and listKept for how long a listing counts.
	listEvery = time.Hour
	listRetry = time.Minute
	listKept  = 24 * time.Hour
)

// listing is what a source calls the assets that it has.
type listing struct {
	source  string
	symbols []string
}

// list asks a venue again and again what it lists, until ctx ends.
func (d *desk) list(ctx context.Context, v venue) {
	for ctx.Err() == nil {
		symbols, known, err := v.Listed(ctx)
		pause := listEvery
		switch {
		case !known:
			return
		case err != nil && ctx.Err() == nil:
			d.log.Warn("listing of a source cannot be read", "source", v.Name(), "err", err)
			pause = listRetry
		case err == nil:
			symbols = quoted(v.Name(), symbols)
			select {
			case d.out <- delivery{listed: &listing{v.Name(), symbols}}:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// quoteOf returns what follows the coin in the symbols of a source.
func quoteOf(source string) string {
	switch source {
	case binance.Name:
		return binanceQuote
	case coinbase.Name:
		return coinbaseQuote
	}
	return ""
}

// quoted returns those of a source's symbols that are priced as assets are.
func quoted(source string, symbols []string) []string {
	var kept []string
	for _, symbol := range symbols {
		if coin, ok := strings.CutSuffix(symbol, quoteOf(source)); ok && coin != "" {
			kept = append(kept, symbol)
		}
	}
	return kept
}

// readListings takes over what the feeder has stored of listings.
func (m *Market) readListings(ctx context.Context) error {
	stored, err := m.o.Store.Listings(ctx, m.sources)
	if err != nil {
		return err
	}
	all := make(listings)
	for source, symbols := range stored {
		names := make(map[string]string, len(symbols))
		for _, symbol := range symbols {
			names[symbol] = strings.TrimSuffix(symbol, quoteOf(source))
		}
		all[source] = names
	}
	m.listings.Store(&all)
	return nil
}
