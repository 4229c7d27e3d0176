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

// prober probes the venues before the current one of an asset.
type prober struct {
	o             *FeedOptions
	symbol, class string
	absent        map[string]bool // venues that do not have the asset
}

// start returns a channel that is closed once a venue before v works again, unless stop is called.
func (p *prober) start(ctx context.Context, v Venue) (better <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	works := make(chan struct{})
	var group sync.WaitGroup
	var once sync.Once
	for _, other := range p.o.Venues {
		if other.Name() == v.Name() {
			break
		}
		if symbol, can := other.Symbol(p.symbol, p.class); can && !p.absent[other.Name()] {
			group.Go(func() {
				panics.Guard(p.o.Log, panics.Source, func() {
					if p.recovers(ctx, other, symbol) {
						once.Do(func() { close(works) })
					}
				}, "source", other.Name(), "asset", p.symbol)
			})
		}
	}
	return works, func() {
		cancel()
		group.Wait()
	}
}

// recovers returns true once a venue has worked for long enough, including its stream if it has
// one, or false when ctx ends.
func (p *prober) recovers(ctx context.Context, v Venue, symbol string) bool {
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
		now := p.o.Now().UnixMilli()
		bars, err := v.Bars(ctx, symbol, signal.M1, now-probedBars*prices.FrameMS[prices.M1], now)
		well := err == nil && len(sanitize(bars, prices.M1, now, p.o.Metrics)) > 0 && (!streams || up.Load() && !fell.Swap(false))
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
