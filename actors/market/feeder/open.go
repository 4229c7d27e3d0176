package feeder

import (
	"context"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// open continues from the state of the last leadership.
func (t *leadership) open(ctx context.Context) error {
	state, err := t.store.State(ctx)
	if err != nil {
		return err
	}
	t.writer.ticksTo, t.writer.barsTo = state.Ticks, state.Bars
	t.writer.step.Ticks, t.writer.step.Bars = state.Ticks, state.Bars
	live := make(map[string]marketdata.Live, len(state.Live))
	for _, l := range state.Live {
		live[l.Asset] = l
	}
	if err := t.restore(ctx, state.Assets, live); err != nil {
		return err
	}
	// Prices from outside win over simulated ones: read which assets have them.
	if i := slices.Index(t.sources, source.Stream); i >= 0 && i < slices.Index(t.sources, simulated.Name) {
		if err := t.given.catchUp(ctx); err != nil {
			return err
		}
	}
	if err := t.writer.fill(ctx, t.strays(state.Assets)); err != nil {
		return err
	}
	if slices.Contains(t.sources, simulated.Name) {
		if err := t.simulate(ctx, &state, live); err != nil {
			return err
		}
	}
	t.trimmed = t.o.Now().UnixMilli()
	return t.writer.flush(ctx)
}

// restore creates the state of assets whose prices come from outside or from real sources.
func (t *leadership) restore(ctx context.Context, records []marketdata.Asset, live map[string]marketdata.Live) error {
	var symbols []string
	for _, r := range records {
		if r.Source == source.Stream || t.keeps(&r) {
			a := t.assets.add(r)
			a.given, a.kept = r.Source != source.Stream, r.Source != source.Stream
			symbols = append(symbols, r.Symbol)
		}
	}
	return t.assets.restore(ctx, symbols, live)
}

// keeps reports whether the source of an asset is a real one that is configured.
func (t *leadership) keeps(r *marketdata.Asset) bool {
	return source.IsVenue(r.Source) && slices.Contains(t.sources, r.Source)
}

// strays returns empty series for assets whose source no longer gives them, and removes those
// without any source.
func (t *leadership) strays(records []marketdata.Asset) []marketdata.Series {
	var empty []marketdata.Series
	for _, r := range records {
		outside := t.assets.of[assets.Fold(r.Symbol)] != nil
		stays := slices.Contains(t.sources, r.Source) && !outside
		if r.Source == simulated.Name {
			stays = stays && !t.real(r.Symbol, r.Class, simulated.Name)
		}
		if r.Source == source.Stream || stays || t.keeps(&r) {
			continue
		}
		if !outside {
			t.writer.step.Removed = append(t.writer.step.Removed, r.Symbol)
		}
		empty = append(empty, emptySeries(r.Symbol)...)
	}
	return empty
}

// emptySeries returns empty series of an asset, which replace the stored ones.
func emptySeries(symbol string) []marketdata.Series {
	var empty []marketdata.Series
	for _, tf := range signal.Timeframes {
		empty = append(empty, marketdata.Series{Asset: symbol, Timeframe: tf, Reset: true})
	}
	return empty
}

func (t *leadership) simulate(ctx context.Context, state *marketdata.State, live map[string]marketdata.Live) error {
	streamFirst := t.sources[0] != simulated.Name
	var own []*assets.Spec
	published := int64(0)
	for _, k := range t.known {
		if streamFirst && t.assets.of[assets.Fold(k.Symbol)] != nil || t.real(k.Symbol, k.Class, simulated.Name) {
			continue
		}
		own = append(own, k)
		if last := live[k.Symbol].Last.Time; published == 0 || last < published {
			published = last
		}
	}
	if len(own) == 0 {
		return nil
	}
	s := simulated.New(t.o.Speed, t.o.Seed, own)
	s.Weather = t.o.Weather
	now := t.o.Now()
	o := s.Open(ctx, state.Checkpoint, published, now.UnixMilli())
	if err := ctx.Err(); err != nil {
		return err
	}
	if until := time.UnixMilli(s.Next()); until.Sub(now) > time.Second {
		t.o.Log.Warn("the clock of Redis went back: the simulated market waits for it", "now", now, "until", until)
	}
	if o.Begun {
		// If this leadership ends before all series are filled, the next one must not continue the earlier market.
		step := &t.writer.step
		forget := marketdata.Step{Epoch: t.lease.epoch, Ticks: step.Ticks, Bars: step.Bars, Checkpoint: simulated.NoCheckpoint}
		if err := t.store.Store(ctx, &forget); err != nil {
			return err
		}
	}
	if err := t.writer.fill(ctx, o.Fill); err != nil {
		return err
	}
	for _, r := range s.Assets() {
		t.assets.of[assets.Fold(r.Symbol)] = &assetState{record: r, given: true}
		if !slices.Contains(state.Assets, r) {
			t.writer.step.Assets = append(t.writer.step.Assets, r)
		}
	}
	if err := t.ticks.write(ctx, o.Ticks); err != nil {
		return err
	}
	t.setMarket(s)
	t.writer.gather(o)
	return nil
}

func (t *leadership) setMarket(m *simulated.Market) { t.market, t.writer.market = m, m }
