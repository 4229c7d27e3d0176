package market

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// readBlock is how long a read waits for entries.
	readBlock = time.Second
	// readRetry is the pause after a read that went wrong.
	readRetry = 250 * time.Millisecond
)

// Run reads ticks, closed bars and news and tells the assets' actors, until ctx
// ends. It survives that Redis is away: after that, all bars are read again.
func (m *Market) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { m.loop(ctx, "ticks", &m.ticksUp, m.ticksReader()) })
	loops.Go(func() { m.loop(ctx, "closed", &m.closedUp, m.closedReader()) })
	loops.Wait()
	return nil
}

// loop calls read again and again. up says whether it went well last time.
func (m *Market) loop(ctx context.Context, stream string, up *atomic.Bool, read func(context.Context) error) {
	defer up.Store(false)
	failed := false
	for ctx.Err() == nil {
		err := read(ctx)
		up.Store(err == nil)
		switch {
		case err == nil && failed:
			m.log.Info("market stream is read again", "stream", stream)
		case err != nil && ctx.Err() == nil:
			if !failed {
				m.log.Warn("market stream cannot be read", "stream", stream, "err", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(readRetry):
			}
		}
		failed = err != nil
	}
}

// attachBefore is how far before the end of market:ticks reading begins, in
// milliseconds: the records have what is older.
const attachBefore = 5_000

// ticksReader returns a function that reads what came into market:ticks since its
// last call. The first call reads nothing but where to begin.
func (m *Market) ticksReader() func(context.Context) error {
	var at signal.Position
	attached := false
	return func(ctx context.Context) error {
		if !attached {
			end, err := m.o.Store.TicksEnd(ctx)
			if err != nil {
				return err
			}
			at, attached = signal.Position{MS: max(0, end.MS-attachBefore)}, true
			return nil
		}
		entries, err := m.o.Store.ReadTicks(ctx, at, readBlock)
		if err != nil {
			return err
		}
		for i := range entries {
			at = entries[i].Position
		}
		m.tellTicks(entries)
		return nil
	}
}

// tellTicks tells the assets' actors of ticks, and remembers the newest of assets
// that nobody watches.
func (m *Market) tellTicks(entries []signal.MarketEntry) {
	m.recent.mu.Lock()
	defer m.recent.mu.Unlock()
	watches := *m.watches.Load()
	for i := range entries {
		// The feeder counts and logs what is wrong.
		t, skipped := parseTick(&entries[i])
		if skipped != "" {
			continue
		}
		key := assetKey(canonical(t.Asset))
		if w := watches[key]; w != nil {
			w.ref.Tell(ticked{t})
		} else {
			m.recent.note(recentKey{key, t.Source}, t)
		}
	}
}

// recentTicks holds the newest tick of each asset that nobody watches, by source.
// The records have it up to a second later only, and whoever asks for the asset by
// then would not learn of it before the next one.
type recentTicks struct {
	mu     sync.Mutex // held while ticks are told, and while a watch is added
	newest map[recentKey]signal.AssetTick
}

// recentKey names an asset by its key, and who gave the tick.
type recentKey struct{ asset, source string }

// note remembers t. Called with mu held.
func (r *recentTicks) note(key recentKey, t signal.AssetTick) {
	before, known := r.newest[key]
	if known && t.Time < before.Time || !known && len(r.newest) >= maxAssets {
		return
	}
	if r.newest == nil {
		r.newest = make(map[recentKey]signal.AssetTick)
	}
	r.newest[key] = t
}

// take returns the newest tick of an asset that is watched from now on. Called with
// mu held.
func (r *recentTicks) take(key recentKey) (t signal.AssetTick, ok bool) {
	t, ok = r.newest[key]
	delete(r.newest, key)
	return t, ok
}

// closedReader is ticksReader for closed bars, and for news from their beginning
// on.
func (m *Market) closedReader() func(context.Context) error {
	var closedAt, newsAt signal.Position
	var count int64
	attached, ready := false, false
	return func(ctx context.Context) error {
		if !attached {
			var err error
			if closedAt, count, err = m.o.Store.ClosedEnd(ctx); err != nil {
				return err
			}
			attached = true
			m.tellMissed() // of what was read before
		}
		closed, news, closedTo, newsTo, err := m.o.Store.Follow(ctx, closedAt, newsAt, readBlock)
		if err != nil {
			return err
		}
		closedAt, newsAt = closedTo, newsTo
		m.news.add(news)
		if !ready && len(news) < readChunk {
			ready = true
			close(m.news.ready)
		}
		for i := range closed {
			if closed[i].Count != count+1 {
				m.tellMissed()
			}
			count = closed[i].Count
			m.tellClosed(&closed[i])
		}
		return nil
	}
}

func (m *Market) tellMissed() {
	for _, w := range *m.watches.Load() {
		w.ref.Tell(missed{})
	}
}

func (m *Market) tellClosed(b *signal.ClosedBar) {
	w := (*m.watches.Load())[assetKey(b.Bar.Asset)]
	if w == nil {
		return
	}
	frame, ok := frameOf(b.Bar.Timeframe)
	if !ok { // the asset's record changed
		w.ref.Tell(missed{})
		return
	}
	w.ref.Tell(barClosed{frame: frame, count: b.Count, bar: strategy.Bar(b.Bar.Bar)})
}
