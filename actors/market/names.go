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

// listings are the assets that real sources list, by source: what each calls an asset,
// and the asset's name here. A source whose listing is not known has none.
type listings map[string]map[string]string

// Name returns the catalogue name of the asset that name means: of a known asset by any
// of its spellings, and of what a real source may have, the coin without what it is
// priced in, or the ticker. Any other name stays as it is, and so do all but the known
// ones where anybody may give prices of his own.
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

// key returns the key under which the store has the asset that name means.
func (m *Market) key(name string) string { return assets.Fold(m.Name(name)) }

func (m *Market) listed() listings {
	if l := m.listings.Load(); l != nil {
		return *l
	}
	return nil
}

// readListings takes over what the feeder has stored of listings.
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

// Check reports whether there can be prices of the asset that name means: a configured
// source can know it, or some have been given. If not, nearest are the names that may
// have been meant. Where the listing of a source is not known, it can know whatever looks
// like one of its names. While Redis cannot be reached any asset can be known.
func (m *Market) Check(ctx context.Context, name string) (nearest []string, ok bool) {
	if m.given || m.possible(name) {
		return nil, true
	}
	key := m.key(name)
	if (*m.watches.Load())[key] != nil {
		return nil, true
	}
	if _, _, err := m.o.Store.Asset(ctx, key); signal.KindOf(err) != signal.KindNotFound {
		return nil, true
	}
	return spelling.Nearest(m.Name(name), m.names()), false
}

// possible reports whether a configured source can know the asset that name means.
func (m *Market) possible(name string) bool {
	symbol, class := m.Name(name), ""
	if k := assets.Find(name); k != nil {
		if m.simulates {
			return true
		}
		class = k.Class
	}
	return slices.ContainsFunc(m.sources, func(source string) bool { return m.listedAt(source, symbol, class) })
}

// listedAt reports whether a real source can know an asset.
func (m *Market) listedAt(name, symbol, class string) bool {
	its, ok := source.SymbolAt(name, symbol, class)
	if !ok {
		return false
	}
	listing, known := m.listed()[name]
	return !known || listing[its] != ""
}

// names returns the names of all assets that sources are known to have, the known ones
// first.
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
