package market

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

// AssetState is an asset as GET /v1/assets shows it.
type AssetState struct {
	Symbol, Class string // Class is empty if it is not known
	Source        string // gives its prices, or will once the asset is asked for
	Simulated     bool
	Last          float64   // the newest price
	LastAt        time.Time // zero without a price
	Open          bool      // its session is open
}

// assetsFor is how long an answer of Assets is reused.
const assetsFor = time.Second

// AssetList has the assets that exist. Its methods ask the store, not the actors of assets: none of them takes up an
// asset.
type AssetList struct {
	names   *names
	store   Store
	watches *watches
	now     func() time.Time
	newest  atomic.Pointer[assetStates]
	spelled atomic.Pointer[spelled]
}

// assetStates is the newest answer of Assets.
type assetStates struct {
	at     time.Time
	assets []AssetState
}

// spelled has the spellings of all assets that sources with some listings may have.
type spelled struct {
	of    *listings
	names spelling.Names
}

// Name returns the catalogue name of the asset that name means. That is the symbol of a known asset in
// any spelling, and for an asset that a real source may have, the coin without its quote currency or
// the ticker. Other names are unchanged, and with prices from outside all names but the known ones are.
func (l *AssetList) Name(name string) string { return l.names.name(name) }

// Assets returns all assets that have prices and the known ones that a configured source may have,
// sorted by name. The error is that of the store. The list is read-only.
func (l *AssetList) Assets(ctx context.Context) ([]AssetState, error) {
	if kept := l.newest.Load(); kept != nil && time.Since(kept.at) < assetsFor {
		return kept.assets, nil
	}
	return l.Prices(ctx)
}

// Prices is Assets without the reuse of an earlier answer.
func (l *AssetList) Prices(ctx context.Context) ([]AssetState, error) {
	state, err := l.store.State(ctx)
	if err != nil {
		return nil, err
	}
	last := make(map[string]marketdata.Tick, len(state.Live))
	for _, l := range state.Live {
		last[l.Asset] = l.Last
	}
	records := state.Assets
	recorded := make(map[string]bool, len(records))
	for i := range records {
		recorded[assets.Fold(records[i].Symbol)] = true
	}
	for i := range assets.Known {
		if k := &assets.Known[i]; !recorded[assets.Fold(k.Symbol)] {
			if source := l.names.sourceOf(k); source != "" {
				records = append(records, marketdata.Asset{Symbol: k.Symbol, Class: k.Class, Source: source})
			}
		}
	}
	now := l.now()
	all := make([]AssetState, 0, len(records))
	for i := range records {
		r := &records[i]
		a := AssetState{
			Symbol: r.Symbol, Class: r.Class, Source: r.Source,
			Simulated: r.Source == simulated.Name, Open: tradedIn(r).Open(now),
		}
		if t := last[r.Symbol]; t.Time != 0 {
			a.Last, a.LastAt = t.Price, prices.Time(t.Time)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(x, y AssetState) int {
		return cmp.Or(cmp.Compare(assets.Fold(x.Symbol), assets.Fold(y.Symbol)), cmp.Compare(x.Symbol, y.Symbol))
	})
	l.newest.Store(&assetStates{time.Now(), all})
	return all, nil
}

// Bars returns the stored bars of the asset that name means and a timeframe, oldest first, whose
// open times lie from from to to, both inclusive; a zero time is no bound. An asset that a source
// may have, but that was not asked for yet, has none. KindNotFound: no source has it, and there are
// no prices from outside. Otherwise the error is that of the store.
func (l *AssetList) Bars(ctx context.Context, name string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error) {
	record, _, err := l.store.Asset(ctx, l.names.key(name))
	if signal.KindOf(err) == signal.KindNotFound && l.names.possible(l.names.name(name)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stored, _, err := l.store.Bars(ctx, record.Symbol, tf)
	if err != nil {
		return nil, err
	}
	var bars []marketdata.Bar
	for i := range stored {
		at := stored[i].OpenTime
		if (from.IsZero() || at >= from.UnixMilli()) && (to.IsZero() || at <= to.UnixMilli()) {
			bars = append(bars, stored[i].Bar)
		}
	}
	return bars, nil
}

// Speed returns how many times faster than real time an asset runs. An asset of a real source runs
// in real time even while it is not kept. The error is KindNotFound if the asset never had prices,
// else that of the store.
func (l *AssetList) Speed(ctx context.Context, name string) (int64, error) {
	key := l.names.key(name)
	if w := l.watches.get(key); w != nil {
		return max(1, w.record.Load().Speed), nil
	}
	record, _, err := l.store.Asset(ctx, key)
	if signal.KindOf(err) == signal.KindNotFound && l.names.firstIsReal(name) {
		return 1, nil
	}
	return max(1, record.Speed), err
}

// Check reports whether there may be prices of an asset with the given catalogue name (see Name),
// because a configured source may have it or prices were given. If not, nearest are similar names. A source with an
// unknown listing may have every name of its form. While Redis cannot be reached every name passes.
func (l *AssetList) Check(ctx context.Context, symbol string) (nearest []string, ok bool) {
	if l.names.given || l.names.possible(symbol) || l.stored(ctx, symbol) {
		return nil, true
	}
	return l.nearest(ctx, symbol), false
}

// Known reports whether a configured source may have the asset with a catalogue name, or there are prices of it. It is
// Check, but does not take every name for one that prices from outside may have.
func (l *AssetList) Known(ctx context.Context, symbol string) bool {
	return !l.names.given && l.names.possible(symbol) || l.stored(ctx, symbol)
}

// Suggest returns the assets that name, which no asset has in any spelling, looks like, the nearest
// first. The result is empty for other names, such as subjects of content, and while Redis cannot be
// reached.
func (l *AssetList) Suggest(ctx context.Context, name string) []string {
	symbol := l.names.name(name)
	if l.names.possible(symbol) {
		return nil
	}
	if nearest := l.nearest(ctx, name); len(nearest) > 0 && !l.stored(ctx, symbol) {
		return nearest
	}
	return nil
}

// stored reports whether there are prices of the asset with a catalogue name, or may be.
func (l *AssetList) stored(ctx context.Context, symbol string) bool {
	key := assets.Fold(symbol)
	if l.watches.get(key) != nil {
		return true
	}
	_, _, err := l.store.Asset(ctx, key)
	return signal.KindOf(err) != signal.KindNotFound
}

// nearest returns the assets of which the symbol or another spelling is similar to name. They are those
// that a source may have or, with prices from outside, that are listed.
func (l *AssetList) nearest(ctx context.Context, name string) []string {
	known := l.spellings()
	if l.names.given {
		all, err := l.Assets(ctx)
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

// spellings returns the spellings of all assets that configured sources may have, those of known ones first.
func (l *AssetList) spellings() spelling.Names {
	of := l.names.listings.Load()
	if kept := l.spelled.Load(); kept != nil && kept.of == of {
		return kept.names
	}
	var names []string
	for i := range assets.Known {
		if k := &assets.Known[i]; l.names.possible(k.Symbol) {
			names = append(append(names, k.Symbol), assets.Spellings(k.Symbol)...)
		}
	}
	known := len(names)
	for _, source := range l.names.sources {
		names = slices.AppendSeq(names, maps.Values(l.names.listed()[source]))
	}
	slices.Sort(names[known:])
	kept := &spelled{of, spelling.Names{}.With(names)}
	l.spelled.Store(kept)
	return kept.names
}
