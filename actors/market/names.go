package market

import (
	"context"
	"maps"
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// listings maps, for each real source with a known listing, the source's symbol of an asset to its name here.
type listings map[string]map[string]string

// Name returns the catalogue name of the asset that name means. That is the symbol of a known asset in
// any spelling, and for an asset that a real source may have, the coin without its quote currency or
// the ticker. Other names are unchanged, and with prices from outside all names but the known ones are.
func (m *Market) Name(name string) string {
	if k := assets.Find(name); k != nil {
		return k.Symbol
	}
	if !m.real || m.given {
		return name
	}
	if coin, ok := source.CoinOf(name, ""); ok && slices.ContainsFunc(m.sources, source.GivesCoins) {
		return coin
	}
	if key := assets.Fold(name); slices.Contains(m.sources, alpaca.Name) && source.IsTicker(key) {
		return key
	}
	return name
}

func (m *Market) key(name string) string { return assets.Fold(m.Name(name)) }

func (m *Market) listed() listings {
	if l := m.listings.Load(); l != nil {
		return *l
	}
	return nil
}

// readListings reads the listings that the feeder stored.
func (m *Market) readListings(ctx context.Context) error {
	stored, err := m.o.Store.Listings(ctx, m.sources)
	if err != nil {
		return err
	}
	all := make(listings)
	for name, symbols := range stored {
		all[name] = source.NamesOfListed(name, symbols)
	}
	m.listings.Store(&all)
	return nil
}

// Check reports whether there may be prices of an asset with the given catalogue name (see Name),
// because a configured source may have it or prices were given. If not, nearest are similar names. A source with an
// unknown listing may have every name of its form. While Redis cannot be reached every name passes.
func (m *Market) Check(ctx context.Context, symbol string) (nearest []string, ok bool) {
	if m.given || m.possible(symbol) || m.stored(ctx, symbol) {
		return nil, true
	}
	return m.nearest(ctx, symbol), false
}

// Suggest returns the assets that name, which no asset has in any spelling, looks like, the nearest
// first. The result is empty for other names, such as subjects of content, and while Redis cannot be
// reached.
func (m *Market) Suggest(ctx context.Context, name string) []string {
	symbol := m.Name(name)
	if m.possible(symbol) {
		return nil
	}
	if nearest := m.nearest(ctx, name); len(nearest) > 0 && !m.stored(ctx, symbol) {
		return nearest
	}
	return nil
}

// stored reports whether there are prices of the asset with a catalogue name, or may be.
func (m *Market) stored(ctx context.Context, symbol string) bool {
	key := assets.Fold(symbol)
	if (*m.watches.Load())[key] != nil {
		return true
	}
	_, _, err := m.o.Store.Asset(ctx, key)
	return signal.KindOf(err) != signal.KindNotFound
}

// possible reports whether a configured source may have the asset with a catalogue name.
func (m *Market) possible(symbol string) bool {
	class := assets.ClassOf(symbol)
	if m.simulates && class != "" {
		return true
	}
	return slices.ContainsFunc(m.sources, func(source string) bool { return m.listedAt(source, symbol, class) })
}

// listedAt reports whether a real source may have an asset.
func (m *Market) listedAt(name, symbol, class string) bool {
	venueSymbol, ok := source.SymbolAt(name, symbol, class)
	if !ok {
		return false
	}
	listing, known := m.listed()[name]
	return !known || listing[venueSymbol] != ""
}

// nearest returns the assets of which the symbol or another spelling is similar to name. They are those
// that a source may have or, with prices from outside, that are listed.
func (m *Market) nearest(ctx context.Context, name string) []string {
	known := m.spellings()
	if m.given {
		all, err := m.Assets(ctx)
		if err != nil {
			return nil
		}
		listed := make([]string, len(all))
		for i := range all {
			listed[i] = all[i].Symbol
		}
		known = known.With(listed)
	}
	var symbols []string
	for _, near := range known.Nearest(name) {
		if symbol := assets.Symbol(near); !slices.Contains(symbols, symbol) {
			symbols = append(symbols, symbol)
		}
	}
	return symbols
}

// spelled has the spellings of all assets that sources with some listings may have.
type spelled struct {
	of    *listings
	names spelling.Names
}

// spellings returns the spellings of all assets that configured sources may have, those of known ones first.
func (m *Market) spellings() spelling.Names {
	of := m.listings.Load()
	if kept := m.spelled.Load(); kept != nil && kept.of == of {
		return kept.names
	}
	var names []string
	for i := range assets.Known {
		if k := &assets.Known[i]; m.possible(k.Symbol) {
			names = append(append(names, k.Symbol), assets.Spellings(k.Symbol)...)
		}
	}
	known := len(names)
	for _, source := range m.sources {
		names = slices.AppendSeq(names, maps.Values(m.listed()[source]))
	}
	slices.Sort(names[known:])
	kept := &spelled{of, spelling.Names{}.With(names)}
	m.spelled.Store(kept)
	return kept.names
}
