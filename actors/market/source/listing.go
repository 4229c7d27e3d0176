package source

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/coinbase"
)

const (
	// listEvery is how often a source is asked what it lists, listRetry the pause after a
	// failure, and listKept for how long a listing counts.
	listEvery = time.Hour
	listRetry = time.Minute
	ListKept  = 24 * time.Hour
)

// listing is what a source calls the assets that it has.
type listing struct {
	Source  string
	Symbols []string
}

// FollowListing asks a venue again and again what it lists, until ctx ends.
func FollowListing(ctx context.Context, v Venue, log *slog.Logger, out chan<- Delivery) {
	for ctx.Err() == nil {
		symbols, known, err := v.Listed(ctx)
		pause := listEvery
		switch {
		case !known:
			return
		case err != nil && ctx.Err() == nil:
			log.Warn("listing of a source cannot be read", "source", v.Name(), "err", err)
			pause = listRetry
		case err == nil:
			symbols = quoted(v.Name(), symbols)
			select {
			case out <- Delivery{Listed: &listing{v.Name(), symbols}}:
			case <-ctx.Done():
			}
		}
		backoff.Sleep(ctx, pause)
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

// NamesOfListed returns the names here of what a source lists, by what it calls them.
func NamesOfListed(source string, symbols []string) map[string]string {
	names := make(map[string]string, len(symbols))
	for _, symbol := range symbols {
		names[symbol] = strings.TrimSuffix(symbol, quoteOf(source))
	}
	return names
}
