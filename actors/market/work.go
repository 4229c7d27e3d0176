package market

import (
	"cmp"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// workTicks works in entries of market:ticks.
func (t *term) workTicks(entries []marketdata.Entry) {
	now := t.o.Now().UnixMilli()
	t.o.Metrics.addTicks(len(entries))
	for i := range entries {
		e := &entries[i]
		if r := t.workTick(e); r != "" {
			t.skips.skip("market:ticks", e, r, now)
		}
		t.ticksTo, t.changed = e.Position, true
	}
}

func (t *term) workTick(e *marketdata.Entry) reason {
	tick, skipped := parseTick(marketdata.GivenTicks, e)
	if skipped != "" {
		return skipped
	}
	a, skipped := t.asset(tick.Asset)
	if skipped != "" {
		return skipped
	}
	if a.given {
		return skipSource
	}
	passed, skipped := a.take(tick.Tick)
	for _, p := range passed {
		if !a.builder.tick(p) {
			skipped = skipLate
		}
	}
	if len(passed) > 0 {
		t.live[a.record.Symbol] = marketdata.Live{Asset: a.record.Symbol, Last: a.filter.last, Minute: a.builder.minute}
	}
	return skipped
}

// workBars works in entries of market:bars.
func (t *term) workBars(entries []marketdata.Entry) {
	now := t.o.Now().UnixMilli()
	for i := range entries {
		e := &entries[i]
		if r := t.workBar(e); r != "" {
			t.skips.skip("market:bars", e, r, now)
		}
		t.barsTo, t.changed, t.trimBars = e.Position, true, true
	}
}

func (t *term) workBar(e *marketdata.Entry) reason {
	bar, skipped := parseBar(e)
	if skipped != "" {
		return skipped
	}
	if known := t.assets[Key(bar.Asset)]; known != nil && known.given {
		return skipSource
	}
	if skipped = checkBarTime(&bar, grid{1}, e.Position.MS); skipped != "" {
		return skipped
	}
	a, skipped := t.asset(bar.Asset)
	if skipped != "" {
		return skipped
	}
	a.builder.give(bar)
	return ""
}

// asset returns the asset that name means, and makes it if it is new.
func (t *term) asset(name string) (*fed, reason) {
	symbol := canonical(name)
	key := assetKey(symbol)
	if a := t.assets[key]; a != nil {
		return a, ""
	}
	if len(t.assets) >= maxAssets {
		return nil, skipAssets
	}
	// No tick size: the first price says little of later ones, and may be a mistake.
	record := marketdata.Asset{Symbol: symbol, Source: streamName, Speed: 1}
	if k := lookUp(symbol); k != nil {
		record.Class, record.AlwaysOpen = k.class, k.class == Crypto
		if t.real(symbol, k.class, streamName) {
			return nil, skipSource // it belongs to a source that comes first
		}
	}
	t.step.Assets = append(t.step.Assets, record)
	return t.add(record), ""
}

// take lets a tick through the asset's filter.
func (a *fed) take(t marketdata.Tick) (passed []marketdata.Tick, skipped reason) {
	if bars := a.builder.recent[m1]; a.filter.last.Time == 0 {
		if i := lastBefore(len(bars), t.Time, func(i int) int64 { return bars[i].CloseTime }); i >= 0 {
			a.filter.begin(t, bars[i].CloseTime, bars[i].Close, barLimit(m1, cmp.Or(a.record.Speed, 1)))
		}
	}
	return a.filter.take(t, a.builder.atr)
}

// add makes the working state of an asset whose prices come from outside.
func (t *term) add(record marketdata.Asset) *fed {
	a := &fed{record: record}
	a.builder = &builder{asset: record.Symbol, grid: grid{cmp.Or(record.Speed, 1)},
		out: func(b marketdata.AssetBar) { t.step.Closed = append(t.step.Closed, b) }}
	t.assets[assetKey(record.Symbol)] = a
	return a
}
