package market

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// watch is what an asset's actor publishes on this node.
type watch struct {
	key string
	ref engine.Ref

	// Written by the actor, read by all.
	record atomic.Pointer[marketdata.Asset] // never nil
	last   atomic.Pointer[marketdata.Tick]
	series [prices.Timeframes]atomic.Pointer[series]

	used atomic.Bool // it was asked for since its use was last recorded
}

// series holds the bars of one timeframe as strategies may use them, or the reason they may not.
type series struct {
	bars []marketdata.Bar
	err  error
}

// published returns the bars that the asset's actor published. There is at least one.
func (w *watch) published(frame int) ([]marketdata.Bar, error) {
	series := w.series[frame].Load()
	switch {
	case series == nil:
		return nil, unreachable(nil) // the actor restarted just now
	case series.err != nil:
		return nil, series.err
	case len(series.bars) == 0:
		return nil, &signal.RunError{Code: signal.InsufficientHistory,
			Message: fmt.Sprintf("there are no bars of %s for %s", signal.Timeframes[frame], w.record.Load().Symbol)}
	}
	return series.bars, nil
}

// watches holds the watches of the assets that were asked for, by key. It is safe for concurrent use.
type watches struct {
	all atomic.Pointer[map[string]*watch] // replaced, never changed
	mu  sync.Mutex                        // guards the replacement
}

func newWatches() *watches {
	w := &watches{}
	w.all.Store(new(map[string]*watch))
	return w
}

func (w *watches) get(key string) *watch { return (*w.all.Load())[key] }

func (w *watches) change(change func(map[string]*watch)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(*w.all.Load())
	if all == nil {
		all = make(map[string]*watch)
	}
	change(all)
	w.all.Store(&all)
}

// tell sends a message to the actors of all assets.
func (w *watches) tell(message any) {
	for _, w := range *w.all.Load() {
		w.ref.Tell(message)
	}
}

// watchAsset asks for the watch of an asset that has a record, which is created if necessary.
type watchAsset struct {
	key    string
	record marketdata.Asset
	reply  chan<- *watch
}

// supervisor is the parent of the asset actors.
type supervisor struct {
	o       *Options
	watches *watches
	recent  *recentTicks
	ending  func() bool
}

func (s *supervisor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case watchAsset:
		if w := s.watches.get(m.key); w != nil {
			m.reply <- w
			return
		}
		w := &watch{key: m.key}
		w.record.Store(&m.record)
		w.ref = c.Spawn(engine.Asset, m.key, func() engine.Actor {
			return newAssetActor(w, s.o, s.recent, s.ending)
		}, engine.Supervision{})
		s.recent.mu.Lock()
		s.watches.change(func(all map[string]*watch) { all[m.key] = w })
		if last, ok := s.recent.newest(tickKey{m.key, m.record.Source}); ok {
			w.ref.Tell(ticked{marketdata.AssetTick{Asset: m.key, Source: m.record.Source, Tick: last}})
		}
		s.recent.mu.Unlock()
		m.reply <- w
	case engine.Terminated:
		// It failed too often, or the market ends. The next question starts another.
		s.watches.change(func(all map[string]*watch) {
			maps.DeleteFunc(all, func(_ string, w *watch) bool { return w.ref == m.Ref })
		})
	case engine.Restarting, engine.Stopping:
		s.watches.change(func(all map[string]*watch) { clear(all) })
	}
}
