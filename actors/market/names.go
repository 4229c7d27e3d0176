package market

import (
	"slices"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
)

// listings maps, for each real source with a known listing, the source's symbol of an asset to its name here.
type listings map[string]map[string]string

// names resolves the names of assets, by the configured sources and their listings. It is safe for concurrent use.
type names struct {
	sources   []string
	simulates bool
	real      bool // a real source is configured
	given     bool // prices from outside are configured: an asset may have any name
	listings  atomic.Pointer[listings]
}

func newNames(sources []string) *names {
	return &names{
		sources:   sources,
		simulates: slices.Contains(sources, simulated.Name),
		given:     slices.Contains(sources, source.Stream),
		real:      slices.ContainsFunc(sources, source.IsVenue),
	}
}

// name returns the catalogue name of the asset that name means, see AssetList.Name.
func (n *names) name(name string) string {
	if k := assets.Find(name); k != nil {
		return k.Symbol
	}
	if !n.real || n.given {
		return name
	}
	if coin, ok := source.CoinOf(name, ""); ok && slices.ContainsFunc(n.sources, source.GivesCoins) {
		return coin
	}
	if key := assets.Fold(name); slices.Contains(n.sources, alpaca.Name) && source.IsTicker(key) {
		return key
	}
	return name
}

func (n *names) key(name string) string { return assets.Fold(n.name(name)) }

// wanted returns the symbol under which an asset is taken up.
func (n *names) wanted(name string) string {
	if k := assets.Find(name); k != nil {
		return k.Symbol
	}
	return n.key(name)
}

func (n *names) listed() listings {
	if l := n.listings.Load(); l != nil {
		return *l
	}
	return nil
}

// setListings sets the symbols that sources list, by source.
func (n *names) setListings(stored map[string][]string) {
	all := make(listings)
	for name, symbols := range stored {
		all[name] = source.NamesOfListed(name, symbols)
	}
	n.listings.Store(&all)
}

// isSimulated reports whether the simulated market has the asset that name means.
func (n *names) isSimulated(name string) bool { return n.simulates && assets.Find(name) != nil }

// isReal reports whether a real source may have an asset of this name.
func (n *names) isReal(name string) bool {
	if !n.real {
		return false
	}
	if k := assets.Find(name); k != nil {
		return !n.simulates || k.Class == assets.Crypto || k.Class == assets.Stock || k.Class == assets.Commodity
	}
	_, isCoin := source.CoinOf(name, "")
	return isCoin || source.IsTicker(assets.Fold(name))
}

// firstIsReal reports whether the first source that may have an asset is a real one.
func (n *names) firstIsReal(name string) bool {
	symbol, class := n.name(name), assets.ClassOf(name)
	for _, source := range n.sources {
		if source == simulated.Name && class != "" {
			return false
		}
		if n.listedAt(source, symbol, class) {
			return true
		}
	}
	return false
}

// sourceOf returns the first configured source that may have a known asset, or an empty string.
func (n *names) sourceOf(k *assets.Spec) string {
	for _, source := range n.sources {
		if source == simulated.Name || n.listedAt(source, k.Symbol, k.Class) {
			return source
		}
	}
	return ""
}

// possible reports whether a configured source may have the asset with a catalogue name.
func (n *names) possible(symbol string) bool {
	class := assets.ClassOf(symbol)
	if n.simulates && class != "" {
		return true
	}
	return slices.ContainsFunc(n.sources, func(source string) bool { return n.listedAt(source, symbol, class) })
}

// listedAt reports whether a real source may have an asset.
func (n *names) listedAt(name, symbol, class string) bool {
	venueSymbol, ok := source.SymbolAt(name, symbol, class)
	if !ok {
		return false
	}
	listing, known := n.listed()[name]
	return !known || listing[venueSymbol] != ""
}
