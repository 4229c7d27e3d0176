package feeder

import (
	"cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func (t *leadership) workTicks(entries []marketdata.Entry) {
	now := t.o.Now().UnixMilli()
	t.o.Metrics.addTicks(len(entries))
	for i := range entries {
		e := &entries[i]
		if r := t.workTick(e); r != "" {
			t.skips.skip(givenTicks, e, r, now)
		}
		t.ticksTo, t.changed = e.Position, true
	}
}

func (t *leadership) workTick(e *marketdata.Entry) prices.Reason {
	tick, skipped := source.ParseTick(marketdata.GivenTicks, e)
	if skipped != "" {
		return skipped
	}
	a, skipped := t.asset(tick.Asset)
	if skipped != "" {
		return skipped
	}
	if a.given {
		return prices.SkipSource
	}
	accepted, skipped := a.take(tick.Tick)
	for _, x := range accepted {
		if !a.builder.tick(x) {
			skipped = prices.SkipLate
		}
	}
	if len(accepted) > 0 {
		symbol := a.record.Symbol
		t.live[symbol] = marketdata.Live{Asset: symbol, Last: a.filter.Last, Minute: a.builder.minute}
	}
	return skipped
}

func (t *leadership) workBars(entries []marketdata.Entry) {
	now := t.o.Now().UnixMilli()
	for i := range entries {
		e := &entries[i]
		if r := t.workBar(e); r != "" {
			t.skips.skip(givenBars, e, r, now)
		}
		t.barsTo, t.changed, t.trimBars = e.Position, true, true
	}
}

func (t *leadership) workBar(e *marketdata.Entry) prices.Reason {
	bar, skipped := source.ParseBar(e)
	if skipped != "" {
		return skipped
	}
	if known := t.assets[assets.Key(bar.Asset)]; known != nil && known.given {
		return prices.SkipSource
	}
	if skipped = source.CheckBarTime(&bar, prices.Grid{Speed: 1}, e.Position.MS); skipped != "" {
		return skipped
	}
	a, skipped := t.asset(bar.Asset)
	if skipped != "" {
		return skipped
	}
	a.builder.give(bar)
	return ""
}

// asset returns the asset that name means, which is created if it is new.
func (t *leadership) asset(name string) (*assetState, prices.Reason) {
	symbol := assets.Symbol(name)
	key := assets.Fold(symbol)
	if a := t.assets[key]; a != nil {
		return a, ""
	}
	if len(t.assets) >= assets.Max {
		return nil, prices.SkipAssets
	}
	// The first price shows little of the tick size, and may be bad.
	record := marketdata.Asset{Symbol: symbol, Source: source.Stream, Speed: 1}
	if k := assets.Find(symbol); k != nil {
		record.Class, record.AlwaysOpen = k.Class, k.Class == assets.Crypto
		if t.real(symbol, k.Class, source.Stream) {
			return nil, prices.SkipSource // an earlier source gives it
		}
	}
	t.step.Assets = append(t.step.Assets, record)
	return t.add(record), ""
}

func (a *assetState) take(t marketdata.Tick) (accepted []marketdata.Tick, skipped prices.Reason) {
	bars := a.builder.recent[prices.M1]
	a.filter.Begin(t, a.builder.grid.Speed, len(bars), func(i int) marketdata.Bar { return bars[i].Bar })
	return a.filter.Take(t, a.builder.atr)
}

// add creates the state of an asset whose prices are not simulated.
func (t *leadership) add(record marketdata.Asset) *assetState {
	closed := func(b marketdata.AssetBar) { t.step.Closed = append(t.step.Closed, b) }
	grid := prices.Grid{Speed: cmp.Or(record.Speed, 1)}
	a := &assetState{record: record, builder: &builder{asset: record.Symbol, grid: grid, out: closed}}
	t.assets[assets.Fold(record.Symbol)] = a
	return a
}
