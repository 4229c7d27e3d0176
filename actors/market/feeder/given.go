package feeder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// reader reads entries of a stream after a position, and waits for them up to block.
type reader func(ctx context.Context, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error)

type batch struct {
	entries []marketdata.Entry
	current int64 // when the stream held no more entries, or 0 if not known
	err     error
}

// givenPrices takes the entries of the two streams from outside.
type givenPrices struct {
	*Feeder
	assets *assetStates
	writer *stepWriter
}

func (g *givenPrices) readTicks(ctx context.Context, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error) {
	return g.store.ReadTicks(ctx, marketdata.GivenTicks, after, block)
}

// restarting returns a reader that reads a stream from its beginning when it begins again, which it counts and logs:
// all entries are new, or if Redis has lost some, those that were taken before are skipped as old.
func (g *givenPrices) restarting(stream string, read reader) reader {
	return func(ctx context.Context, after signal.Position, block time.Duration) ([]marketdata.Entry, bool, error) {
		entries, more, err := read(ctx, after, block)
		if !errors.Is(err, marketdata.ErrRestarted) {
			return entries, more, err
		}
		g.o.Metrics.restarted(stream)
		g.o.Log.Warn("a stream begins again with smaller ids: it is read from its beginning",
			"stream", stream, "read", after.String())
		return read(ctx, signal.Position{}, 0)
	}
}

// readers returns the readers of ticks and of bars.
func (g *givenPrices) readers() (ticks, bars reader) {
	return g.restarting(givenTicks, g.readTicks), g.restarting(givenBars, g.store.ReadBars)
}

// follow reads a stream from a position on until ctx ends or a read fails.
func (g *givenPrices) follow(ctx context.Context, wg *sync.WaitGroup, read reader, after signal.Position) <-chan batch {
	out := make(chan batch)
	wg.Go(func() {
		for ctx.Err() == nil {
			b := batch{current: g.o.Now().UnixMilli(), err: panics.ErrPanicked}
			more := false
			next := func() { b.entries, more, b.err = read(ctx, after, time.Second) }
			panics.Guard(g.o.Log, panics.Market, next, "after", after.String())
			if more {
				b.current = 0
			}
			if n := len(b.entries); n > 0 {
				after = b.entries[n-1].Position
			}
			select {
			case out <- b:
			case <-ctx.Done():
			}
			if b.err != nil {
				return
			}
		}
	})
	return out
}

// catchUp takes all entries that there are.
func (g *givenPrices) catchUp(ctx context.Context) error {
	readTicks, readBars := g.readers()
	for {
		entries, moreTicks, err := readTicks(ctx, g.writer.ticksTo, 0)
		if err != nil {
			return err
		}
		g.takeTicks(entries)
		bars, moreBars, err := readBars(ctx, g.writer.barsTo, 0)
		if err != nil {
			return err
		}
		g.takeBars(bars)
		if !moreTicks && !moreBars {
			return nil
		}
	}
}

func (g *givenPrices) takeTicks(entries []marketdata.Entry) {
	now := g.o.Now().UnixMilli()
	g.o.Metrics.addTicks(len(entries))
	for i := range entries {
		e := &entries[i]
		if r := g.takeTick(e); r != "" {
			g.skips.skip(givenTicks, e, r, now)
		}
		g.writer.ticksTo, g.writer.changed = e.Position, true
	}
}

func (g *givenPrices) takeTick(e *marketdata.Entry) prices.Reason {
	tick, skipped := source.ParseTick(marketdata.GivenTicks, e)
	if skipped != "" {
		return skipped
	}
	a, skipped := g.asset(tick.Asset)
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
		g.writer.live[symbol] = marketdata.Live{Asset: symbol, Last: a.filter.Last, Minute: a.builder.minute}
	}
	return skipped
}

func (g *givenPrices) takeBars(entries []marketdata.Entry) {
	now := g.o.Now().UnixMilli()
	for i := range entries {
		e := &entries[i]
		if r := g.takeBar(e); r != "" {
			g.skips.skip(givenBars, e, r, now)
		}
		g.writer.barsTo, g.writer.changed, g.writer.trimBars = e.Position, true, true
	}
}

func (g *givenPrices) takeBar(e *marketdata.Entry) prices.Reason {
	bar, skipped := source.ParseBar(e)
	if skipped != "" {
		return skipped
	}
	if known := g.assets.of[assets.Key(bar.Asset)]; known != nil && known.given {
		return prices.SkipSource
	}
	if skipped = source.CheckBarTime(&bar, prices.Grid{Speed: 1}, e.Position.MS); skipped != "" {
		return skipped
	}
	a, skipped := g.asset(bar.Asset)
	if skipped != "" {
		return skipped
	}
	a.builder.give(bar)
	return ""
}

// asset returns the asset that name means, which is created if it is new.
func (g *givenPrices) asset(name string) (*assetState, prices.Reason) {
	symbol := assets.Symbol(name)
	key := assets.Fold(symbol)
	if a := g.assets.of[key]; a != nil {
		return a, ""
	}
	if len(g.assets.of) >= assets.Max {
		return nil, prices.SkipAssets
	}
	// The first price shows little of the tick size, and may be bad.
	record := marketdata.Asset{Symbol: symbol, Source: source.Stream, Speed: 1}
	if k := assets.Find(symbol); k != nil {
		record.Class, record.AlwaysOpen = k.Class, k.Class == assets.Crypto
		if g.real(symbol, k.Class, source.Stream) {
			return nil, prices.SkipSource // an earlier source gives it
		}
	}
	g.writer.step.Assets = append(g.writer.step.Assets, record)
	return g.assets.add(record), ""
}
