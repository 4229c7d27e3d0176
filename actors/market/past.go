package market

import (
	"context"
	"math"
	"time"

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
	return Snapshot{Asset: assetOf(*record), Bars: bars, Source: record.Source, Proxy: proxyOf(record), Compression: float64(record.Speed),
		Last: Tick{Price: newest.Close, Time: newest.CloseTime}}, nil
}

// ClassOf returns the class of the known asset that name means by any of its spellings;
// empty for others.
func ClassOf(name string) string {
	if k := lookUp(name); k != nil {
		return k.class
	}
	return ""
}

// OriginOf returns what signals on the asset with a record say of its prices, as which
// they name it.
func OriginOf(record *marketdata.Asset, asset string) strategy.Origin {
	return strategy.Origin{Asset: asset, Tick: record.TickSize, Source: record.Source, Proxy: proxyOf(record), Compression: float64(max(1, record.Speed))}
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
	symbol, class, simulated := m.Name(name), "", false
	if k := lookUp(name); k != nil {
		class, simulated = k.class, true
	}
	for _, source := range m.sources {
		if source == simulatedName && simulated {
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

// Thinned says that fewer ticks of the asset are told than its bars hold prices.
func Thinned(record *marketdata.Asset) bool {
	return record.Source == simulatedName && record.Speed > fullTickSpeed
}

// History returns stored bars of the asset with a record as strategies are given them:
// with short gaps filled, and without what lies before the newest long one. The error is
// a *signal.RunError: DATA_UNAVAILABLE where too many of the newest are missing.
func History(stored []marketdata.AssetBar, record *marketdata.Asset, tf signal.Timeframe) ([]marketdata.Bar, error) {
	bars := make([]marketdata.Bar, len(stored))
	for i := range stored {
		bars[i] = stored[i].Bar
	}
	frame, _ := frameOf(tf)
	return usable(bars, record, frame)
}

// Walk returns n bars of a timeframe of an asset of the simulated market, as the seed
// has it: those of the market itself but for the density of the path, of which there
// are 24 points a bar. The bars begin at 2020-01-01 UTC. It returns nil for an asset
// that the simulated market does not have, and for an unknown timeframe.
func Walk(seed uint64, asset string, tf signal.Timeframe, n int) []marketdata.Bar {
	k := lookUp(asset)
	frame, ok := frameOf(tf)
	if k == nil || !ok {
		return nil
	}
	const begin = 1_577_836_800_000
	p := newPath(seed, k)
	step := frameMS[frame] / walkPoints
	bars := make([]marketdata.Bar, 0, n)
	last := roundTo(math.Exp(p.price), p.tick)
	for i := range n {
		open := begin + int64(i)*frameMS[frame]
		b := marketdata.Bar{OpenTime: open, CloseTime: open + frameMS[frame], Open: last, High: last, Low: last}
		for range walkPoints {
			price, volume := p.step(float64(step) / marketMSPerHour)
			b.High, b.Low, b.Close = max(b.High, price), min(b.Low, price), price
			b.Volume += volume
		}
		last = b.Close
		bars = append(bars, b)
	}
	return bars
}

// walkPoints is how many points of a path are in a bar of Walk.
const walkPoints = 24
