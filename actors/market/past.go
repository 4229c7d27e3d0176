package market

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// Past is Series however old the bars are: what lies behind does not become stale. Last
// is the close of the newest bar.
func (m *Market) Past(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	w, frame, err := m.watched(ctx, name, tf)
	if err != nil {
		return Snapshot{}, err
	}
	record := w.record.Load()
	bars, err := m.shown(w, frame)
	if err != nil {
		return Snapshot{}, err
	}
	newest := &bars[len(bars)-1]
	return Snapshot{Asset: assetOf(*record), Bars: bars, Source: record.Source, Proxy: source.ProxyOf(record), Compression: float64(record.Speed),
		Last: marketdata.Tick{Price: newest.Close, Time: newest.CloseTime}}, nil
}

// OriginOf returns what signals on the asset with a record say of its prices, as which
// they name it.
func OriginOf(record *marketdata.Asset, asset string) strategy.Origin {
	return strategy.Origin{Asset: asset, Tick: record.TickSize, Source: record.Source, Proxy: source.ProxyOf(record), Compression: float64(max(1, record.Speed))}
}

// Speed returns how many times as fast as real time the bars of an asset go by. One that
// real sources give goes by real time while it is not kept, too. The error is KindNotFound
// if its prices were never given, else that of the store.
func (m *Market) Speed(ctx context.Context, name string) (int64, error) {
	if w := (*m.watches.Load())[m.key(name)]; w != nil {
		return max(1, w.record.Load().Speed), nil
	}
	record, _, err := m.o.Store.Asset(ctx, m.key(name))
	if signal.KindOf(err) == signal.KindNotFound && m.firstIsReal(name) {
		return 1, nil
	}
	return max(1, record.Speed), err
}

// firstIsReal reports whether a real source is the first that can have an asset.
func (m *Market) firstIsReal(name string) bool {
	symbol, class, known := m.Name(name), "", false
	if k := assets.Find(name); k != nil {
		class, known = k.Class, true
	}
	for _, source := range m.sources {
		if source == simulated.Name && known {
			return false
		}
		if m.listedAt(source, symbol, class) {
			return true
		}
	}
	return false
}

// ExpiryOf returns when the asset with a record has been traded for so long after a time,
// in bars of a timeframe.
func ExpiryOf(record *marketdata.Asset, from time.Time, d time.Duration, tf signal.Timeframe) time.Time {
	s := tradedIn(record)
	return s.After(from, s.Lasting(d, tf))
}

// Thinned reports whether fewer ticks of the asset are published than its bars hold prices.
func Thinned(record *marketdata.Asset) bool {
	return record.Source == simulated.Name && record.Speed > simulated.FullTickSpeed
}

// History returns stored bars of the asset with a record as strategies are given them:
// with short gaps filled, and without what lies before the newest long one. The error is
// a *signal.RunError: DATA_UNAVAILABLE where too many of the newest are missing.
func History(stored []marketdata.AssetBar, record *marketdata.Asset, tf signal.Timeframe) ([]marketdata.Bar, error) {
	bars := make([]marketdata.Bar, len(stored))
	for i := range stored {
		bars[i] = stored[i].Bar
	}
	frame, _ := prices.FrameOf(tf)
	return usable(bars, record, frame)
}
