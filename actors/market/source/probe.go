package source

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

const (
	// probeEvery is how often the venues are asked that come before the one that gives
	// an asset's prices now.
	probeEvery = time.Minute
	// returnAfter is for how long one of them must have answered well until it gives the
	// prices again: each change has the whole history read again.
	returnAfter = 10 * time.Minute
	// probedBars is of how many minutes it must have a bar.
	probedBars = 10
)

// probe has k.better closed once a venue that comes before v works again, until stop is
// called.
func (k *AssetFeed) probe(ctx context.Context, v Venue) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	better := make(chan struct{})
	k.better = better
	var group sync.WaitGroup
	var once sync.Once
	for _, other := range k.venues {
		if other.Name() == v.Name() {
			break
		}
		if symbol, can := other.Symbol(k.Symbol, k.class); can && !k.absent[other.Name()] {
			group.Go(func() {
				panics.Guard(k.log, panics.Source, func() {
					if k.recovers(ctx, other, symbol) {
						once.Do(func() { close(better) })
					}
				}, "source", other.Name(), "asset", k.Symbol)
			})
		}
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// recovers returns true once a venue has answered well for long enough, false when ctx
// ends. One that streams must do so.
func (k *AssetFeed) recovers(ctx context.Context, v Venue, symbol string) bool {
	var up, fell atomic.Bool
	stop, streams := v.Follow(symbol, func(e binance.Event) {
		switch e.Kind {
		case binance.Up:
			up.Store(true)
		case binance.Down:
			up.Store(false)
			fell.Store(true)
		}
	})
	if streams {
		defer stop()
	}
	var since time.Time
	for backoff.Sleep(ctx, probeEvery) {
		now := k.now().UnixMilli()
		bars, err := v.Bars(ctx, symbol, signal.M1, now-probedBars*prices.FrameMS[prices.M1], now)
		well := err == nil && len(k.sanitize(bars, prices.M1, now)) > 0 && (!streams || up.Load() && !fell.Swap(false))
		switch {
		case !well:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= returnAfter:
			return true
		}
	}
	return false
}
