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
	// probeEvery is the interval of probes of the venues before the current one of an asset.
	probeEvery = time.Minute
	// returnAfter is how long one of them must have worked before the asset returns to it. Each
	// change of the venue reads the whole history again.
	returnAfter = 10 * time.Minute
	// probedBars is the number of minutes in which it must have a bar.
	probedBars = 10
)

// probe closes k.better once a venue before v works again, until stop is called.
func (k *AssetFeed) probe(ctx context.Context, v Venue) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	better := make(chan struct{})
	k.better = better
	var group sync.WaitGroup
	var once sync.Once
	for _, other := range k.o.Venues {
		if other.Name() == v.Name() {
			break
		}
		if symbol, can := other.Symbol(k.Symbol, k.class); can && !k.absent[other.Name()] {
			group.Go(func() {
				panics.Guard(k.o.Log, panics.Source, func() {
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

// recovers returns true once a venue has worked for long enough, including its stream if it has
// one, or false when ctx ends.
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
		now := k.o.Now().UnixMilli()
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
