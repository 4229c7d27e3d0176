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

// History is Series for bars of any age. Last is the close of the newest bar.
func (m *Market) History(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	w, frame, err := m.watched(ctx, name, tf)
	if err != nil {
		return Snapshot{}, err
	}
	record := w.record.Load()
	bars, err := m.published(w, frame)
	if err != nil {
		return Snapshot{}, err
	}
	return newSnapshot(record, bars), nil
}

// OriginOf returns the origin of prices in signals that call the asset with a record asset.
func OriginOf(record *marketdata.Asset, asset string) strategy.Origin {
	return strategy.Origin{
		Asset: asset, Tick: record.TickSize, Source: record.Source, Proxy: source.ProxyOf(record),
		Compression: float64(max(1, record.Speed)),
	}
}

// Speed returns how many times faster than real time an asset runs. An asset of a real source runs
// in real time even while it is not kept. The error is KindNotFound if the asset never had prices,
// else that of the store.
func (m *Market) Speed(ctx context.Context, name string) (int64, error) {
	key := m.key(name)
	if w := (*m.watches.Load())[key]; w != nil {
		return max(1, w.record.Load().Speed), nil
	}
	record, _, err := m.o.Store.Asset(ctx, key)
	if signal.KindOf(err) == signal.KindNotFound && m.firstIsReal(name) {
		return 1, nil
	}
	return max(1, record.Speed), err
}

// firstIsReal reports whether the first source that may have an asset is a real one.
func (m *Market) firstIsReal(name string) bool {
	symbol, class := m.Name(name), assets.ClassOf(name)
	for _, source := range m.sources {
		if source == simulated.Name && class != "" {
			return false
		}
		if m.listedAt(source, symbol, class) {
			return true
		}
	}
	return false
}

// ExpiryOf returns when the asset with a record has been traded for d after a time, counted in bars
// of a timeframe.
func ExpiryOf(record *marketdata.Asset, from time.Time, d time.Duration, tf signal.Timeframe) time.Time {
	s := tradedIn(record)
	return s.After(from, s.Lasting(d, tf))
}

// LeftOf returns the share of the time between two while the asset with a record is traded that is
// left at a third, in milliseconds.
func LeftOf(record *marketdata.Asset, since, expires, at int64) float64 {
	s := tradedIn(record)
	all := s.Between(time.UnixMilli(since), time.UnixMilli(expires))
	if all <= 0 {
		return 0
	}
	return float64(s.Between(time.UnixMilli(max(since, at)), time.UnixMilli(expires))) / float64(all)
}

// Thinned reports whether not every price of the asset is published as a tick.
func Thinned(record *marketdata.Asset) bool {
	return record.Source == simulated.Name && record.Speed > simulated.FullTickSpeed
}

// History returns stored bars of the asset with a record as strategies see them: with short gaps
// filled, and without the bars before the newest long gap. The error is a *signal.RunError:
// DATA_UNAVAILABLE if too many of the newest bars are missing.
func History(stored []marketdata.AssetBar, record *marketdata.Asset, tf signal.Timeframe) ([]marketdata.Bar, error) {
	bars := make([]marketdata.Bar, len(stored))
	for i := range stored {
		bars[i] = stored[i].Bar
	}
	frame, _ := prices.FrameOf(tf)
	return usable(bars, record, frame)
}
