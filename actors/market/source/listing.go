package source

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/coinbase"
)

const (
	// listEvery is the interval between reads of a listing, listRetry the pause after a failure.
	listEvery = time.Hour
	listRetry = time.Minute
	// ListKept is how long a listing is valid.
	ListKept = 24 * time.Hour
)

type listing struct {
	Source  string
	Symbols []string
}

// FollowListing reads the listing of a venue periodically until ctx ends.
func FollowListing(ctx context.Context, v Venue, log *slog.Logger, out chan<- Delivery) {
	for ctx.Err() == nil {
		symbols, err := v.Listed(ctx)
		pause := listEvery
		switch {
		case err == nil && symbols == nil:
			return // it has no listing
		case err != nil && ctx.Err() == nil:
			log.Warn("listing of a source cannot be read", "source", v.Name(), "err", err)
			pause = listRetry
		case err == nil:
			select {
			case out <- Delivery{Listed: &listing{v.Name(), quoted(v.Name(), symbols)}}:
			case <-ctx.Done():
			}
		}
		backoff.Sleep(ctx, pause)
	}
}

// quoteOf returns the quote currency that ends the symbols of a source.
func quoteOf(source string) string {
	switch source {
	case binance.Name:
		return binanceQuote
	case coinbase.Name:
		return coinbaseQuote
	}
	return ""
}

// quoted returns those of a source's symbols that have its quote currency.
func quoted(source string, symbols []string) []string {
	quote := quoteOf(source)
	return slices.DeleteFunc(symbols, func(symbol string) bool {
		return len(symbol) <= len(quote) || !strings.HasSuffix(symbol, quote)
	})
}

// NamesOfListed maps the symbols that a source lists to the names of their assets.
func NamesOfListed(source string, symbols []string) map[string]string {
	names := make(map[string]string, len(symbols))
	for _, symbol := range symbols {
		names[symbol] = strings.TrimSuffix(symbol, quoteOf(source))
	}
	return names
}
