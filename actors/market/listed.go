package market

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
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

// assetList is the newest answer of Assets.
type assetList struct {
	at     time.Time
	assets []AssetState
}

// Assets returns all assets that have prices and the known ones that a configured source may have,
// sorted by name. The error is that of the store. The list is read-only.
func (m *Market) Assets(ctx context.Context) ([]AssetState, error) {
	if kept := m.assets.Load(); kept != nil && time.Since(kept.at) < assetsFor {
		return kept.assets, nil
	}
	return m.Prices(ctx)
}

// Prices is Assets without the reuse of an earlier answer.
func (m *Market) Prices(ctx context.Context) ([]AssetState, error) {
	state, err := m.o.Store.State(ctx)
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
			if source := m.sourceOf(k); source != "" {
				records = append(records, marketdata.Asset{Symbol: k.Symbol, Class: k.Class, Source: source})
			}
		}
	}
	now := m.o.Now()
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
	m.assets.Store(&assetList{time.Now(), all})
	return all, nil
}

// sourceOf returns the first configured source that may have a known asset, or an empty string.
func (m *Market) sourceOf(k *assets.Spec) string {
	for _, source := range m.sources {
		if source == simulated.Name || m.listedAt(source, k.Symbol, k.Class) {
			return source
		}
	}
	return ""
}

// Bars returns the stored bars of the asset that name means and a timeframe, oldest first, whose
// open times lie from from to to, both inclusive; a zero time is no bound. An asset that a source
// may have, but that was not asked for yet, has none. KindNotFound: no source has it, and there are
// no prices from outside. Otherwise the error is that of the store. It does not ask for the asset.
func (m *Market) Bars(
	ctx context.Context, name string, tf signal.Timeframe, from, to time.Time,
) ([]marketdata.Bar, error) {
	record, _, err := m.o.Store.Asset(ctx, m.key(name))
	if signal.KindOf(err) == signal.KindNotFound && m.possible(m.Name(name)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stored, _, err := m.o.Store.Bars(ctx, record.Symbol, tf)
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
