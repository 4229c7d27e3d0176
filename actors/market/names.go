package market

import (
	"context"
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
	if m.given || m.possible(symbol) {
		return nil, true
	}
	key := assets.Fold(symbol)
	if (*m.watches.Load())[key] != nil {
		return nil, true
	}
	if _, _, err := m.o.Store.Asset(ctx, key); signal.KindOf(err) != signal.KindNotFound {
		return nil, true
	}
	return spelling.Nearest(symbol, m.names()), false
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

// names returns the names of all assets that configured sources list, the known ones first.
func (m *Market) names() []string {
	var known, listed []string
	for i := range assets.Known {
		if m.possible(assets.Known[i].Symbol) {
			known = append(known, assets.Known[i].Symbol)
		}
	}
	for _, source := range m.sources {
		for _, name := range m.listed()[source] {
			if !slices.Contains(known, name) {
				listed = append(listed, name)
			}
		}
	}
	slices.Sort(listed)
	return append(known, slices.Compact(listed)...)
}
