package feeder

import (
	"cmp"
	"context"
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// assetState is an asset whose prices come from outside, or one that a source gives.
type assetState struct {
	record  marketdata.Asset
	given   bool  // a source gives it: entries from outside are skipped
	kept    bool  // the source is a real one
	missed  int64 // the time since which ticks may be missing before the next one, or 0
	filter  prices.Filter
	builder *builder
}

func (a *assetState) take(t marketdata.Tick) (accepted []marketdata.Tick, skipped prices.Reason) {
	bars := a.builder.recent[prices.M1]
	a.filter.Begin(t, a.builder.grid.Speed, len(bars), func(i int) marketdata.Bar { return bars[i].Bar })
	return a.filter.Take(t, a.builder.atr)
}

// assetStates holds the state of all assets, and the bars that are built of their prices.
type assetStates struct {
	of     map[string]*assetState // by key
	store  Records
	writer *stepWriter
}

// add creates the state of an asset whose prices are not simulated.
func (s *assetStates) add(record marketdata.Asset) *assetState {
	closed := func(b marketdata.AssetBar) { s.writer.step.Closed = append(s.writer.step.Closed, b) }
	grid := prices.Grid{Speed: cmp.Or(record.Speed, 1)}
	a := &assetState{record: record, builder: &builder{asset: record.Symbol, grid: grid, out: closed}}
	s.of[assets.Fold(record.Symbol)] = a
	return a
}

// restore continues from the records of assets that were added and from their newest prices.
func (s *assetStates) restore(ctx context.Context, symbols []string, live map[string]marketdata.Live) error {
	recent := make(map[string]*[prices.Timeframes][]marketdata.AssetBar, len(symbols))
	for _, symbol := range symbols {
		recent[symbol] = new([prices.Timeframes][]marketdata.AssetBar)
	}
	for frame, tf := range signal.Timeframes {
		err := s.store.EachRecent(ctx, symbols, tf, recentKept[frame], func(asset string, bars []marketdata.AssetBar) {
			recent[asset][frame] = bars
		})
		if err != nil {
			return err
		}
	}
	for _, symbol := range symbols {
		a := s.of[assets.Fold(symbol)]
		a.filter.Last = live[symbol].Last
		a.builder.restore(live[symbol].Minute, *recent[symbol])
	}
	return nil
}

// recent returns the newest bars of each timeframe of an asset, at most count.
func (s *assetStates) recent(ctx context.Context, symbol string, count [prices.Timeframes]int) (
	recent [prices.Timeframes][]marketdata.AssetBar, err error) {
	for frame, tf := range signal.Timeframes {
		keep := func(_ string, bars []marketdata.AssetBar) { recent[frame] = bars }
		if err := s.store.EachRecent(ctx, []string{symbol}, tf, count[frame], keep); err != nil {
			return recent, err
		}
	}
	return recent, nil
}

// advance closes the bars of prices from outside that end at a time.
func (s *assetStates) advance(to int64) {
	for _, a := range s.of {
		if !a.given {
			a.builder.advance(to)
		}
	}
}

// rebuild builds coarser bars again after finer ones came that are older than those that a builder keeps.
func (s *assetStates) rebuild(ctx context.Context, now int64) error {
	for _, a := range s.of {
		if a.given && !a.kept || a.builder.rebuild == 0 {
			continue
		}
		const all = prices.RecordKept
		series, err := s.recent(ctx, a.record.Symbol, [prices.Timeframes]int{all, all, all, all})
		if err != nil {
			return err
		}
		var fill [prices.Timeframes]marketdata.Series
		for _, b := range rebuilt(a.builder.grid, &series, a.builder.rebuild, now-grace) {
			frame, _ := prices.FrameOf(b.Timeframe)
			fill[frame].Asset, fill[frame].Timeframe = b.Asset, b.Timeframe
			fill[frame].Bars = append(fill[frame].Bars, b)
		}
		written := slices.DeleteFunc(fill[:], func(s marketdata.Series) bool { return len(s.Bars) == 0 })
		if err := s.writer.fill(ctx, written); err != nil {
			return err
		}
		for frame := range series {
			series[frame] = slices.Clone(series[frame][max(0, len(series[frame])-recentKept[frame]):])
		}
		a.builder.rebuild = 0
		a.builder.restore(a.builder.minute, series)
	}
	return nil
}
