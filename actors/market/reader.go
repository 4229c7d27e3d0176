package market

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// readBlock is how long a read waits for entries.
	readBlock = time.Second
	// readPause is the pause between two reads of ticks after which some may have been trimmed unread.
	readPause = time.Minute
	// readRetry is the pause after a failed read.
	readRetry = 250 * time.Millisecond
	// readHalt is the age of the last read at which the process was halted, or Redis is slow: a read, and
	// the one before it, may wait readBlock.
	readHalt = 3 * readBlock
	// readSettle is how long after such a gap the actors of assets may still have to take up what was read.
	readSettle = time.Second
)

// reading records up to when a stream is read. Its methods are safe for concurrent use.
type reading struct {
	// The wall clock in nanoseconds: a process that was halted notices it only by the time.
	begun  atomic.Int64 // when the last read that found the end of the stream began; 0 if the last one failed
	gapEnd atomic.Int64 // when the first such read after a gap ended
}

// ended notes a read that began at a time and found the end of the stream.
func (r *reading) ended(begun time.Time) {
	if begun.UnixNano()-r.begun.Load() > int64(readHalt) {
		r.gapEnd.Store(time.Now().UnixNano())
	}
	r.begun.Store(begun.UnixNano())
}

func (r *reading) failed() { r.begun.Store(0) }

// current reports whether the stream is read: what actors have not got yet is not in it.
func (r *reading) current() bool {
	now := time.Now().UnixNano()
	return now-r.begun.Load() <= int64(readHalt) && now-r.gapEnd.Load() >= int64(readSettle)
}

// Run reads ticks, closed bars and news and passes them to the assets' actors until ctx ends. After
// an outage of Redis it has all bars read again.
func (m *Market) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for stream, name := range map[marketdata.TickStream]string{
		marketdata.GivenTicks: "given ticks", marketdata.OwnTicks: "own ticks",
	} {
		loops.Go(func() { m.loop(ctx, name, &m.ticksRead[stream], m.ticksReader(stream)) })
	}
	loops.Go(func() { m.loop(ctx, "closed", &m.closedRead, m.closedReader()) })
	if m.real {
		loops.Go(func() { m.noteUse(ctx) })
	}
	loops.Wait()
	return nil
}

// readStream reads what a stream has since its last call. more reports that there may be more at once.
type readStream func(context.Context) (more bool, err error)

// loop calls read until ctx ends, and records in r how far the stream is read.
func (m *Market) loop(ctx context.Context, stream string, r *reading, read readStream) {
	defer r.failed()
	failed := false
	for ctx.Err() == nil {
		more, err, begun := false, panics.ErrPanicked, time.Now()
		panics.Guard(m.log, panics.Market, func() { more, err = read(ctx) }, "stream", stream)
		switch {
		case err != nil:
			r.failed()
		case !more:
			r.ended(begun)
		}
		switch {
		case err == nil && failed:
			m.log.Info("market stream is read again", "stream", stream)
		case err != nil && ctx.Err() == nil:
			if !failed {
				m.log.Warn("market stream cannot be read", "stream", stream, "err", err)
			}
			backoff.Sleep(ctx, readRetry)
		}
		failed = err != nil
	}
}

// ticksReader returns a function that reads the ticks of a stream since its last call, and all of
// them at first.
func (m *Market) ticksReader(stream marketdata.TickStream) readStream {
	var at, end signal.Position
	var before time.Time // when the last read ended
	attached, caughtUp, failed := false, false, false
	return func(ctx context.Context) (more bool, err error) {
		// A process that was halted notices it only by the time.
		failed = failed || time.Now().Round(0).Sub(before) > readPause
		defer func() { failed, before = err != nil, time.Now().Round(0) }()
		if !attached {
			if end, err = m.o.Store.TicksEnd(ctx, stream); err != nil {
				return false, err
			}
			attached = true
		}
		if failed && !at.IsZero() {
			kept, err := m.o.Store.TicksKept(ctx, stream, at)
			if err != nil {
				return false, err
			}
			if !kept {
				newest, err := m.o.Store.TicksEnd(ctx, stream)
				if err != nil {
					return false, err
				}
				if newest.Compare(at) < 0 { // Redis has lost what was read
					at = newest
				}
				m.missTicks(stream)
			}
		}
		entries, more, err := m.o.Store.ReadTicks(ctx, stream, at, readBlock)
		if errors.Is(err, marketdata.ErrRestarted) {
			at = signal.Position{}
			m.missTicks(stream)
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for i := range entries {
			at = entries[i].Position
		}
		m.deliverTicks(stream, entries)
		if at.Compare(end) >= 0 && !caughtUp {
			caughtUp = true
			m.tapes.caughtUp()
		}
		return more, nil
	}
}

// missTicks makes alerts catch up by bars, since ticks of a stream may never be read.
func (m *Market) missTicks(stream marketdata.TickStream) {
	m.log.Warn("ticks were missed: alerts catch up by bars", "own", stream == marketdata.OwnTicks)
	m.tapes.clear(stream)
	for _, w := range *m.watches.Load() {
		if streamOf(w.record.Load().Source) == stream {
			w.ref.Tell(ticksMissed{})
		}
	}
}

// deliverTicks passes ticks to the tapes and to the assets' actors.
func (m *Market) deliverTicks(stream marketdata.TickStream, entries []marketdata.Entry) {
	m.tapes.mu.Lock()
	defer m.tapes.mu.Unlock()
	watches := *m.watches.Load()
	panics.GuardEach(m.log, panics.Market, len(entries), func(i int) {
		t, skipped := source.ParseTick(stream, &entries[i])
		if skipped != "" {
			return // the feeder counts and logs it
		}
		key := assets.Fold(t.Asset) // own ticks have the symbol of the record
		if stream == marketdata.GivenTicks {
			key = assets.Key(t.Asset)
		}
		m.tapes.note(tapeKey{key, t.Source}, t.Tick, entries[i].Position.MS, t.Missed != 0)
		if w := watches[key]; w != nil {
			w.ref.Tell(ticked{t})
		}
	}, func(i int) []any {
		return []any{"own", stream == marketdata.OwnTicks, "at", entries[i].Position.String()}
	})
}

func (m *Market) sendAll(message any) {
	for _, w := range *m.watches.Load() {
		w.ref.Tell(message)
	}
}

// closedReader is ticksReader for new closed bars and for all news.
func (m *Market) closedReader() readStream {
	var closedAt, newsAt signal.Position
	var count int64
	attached, ready, failed := false, false, false
	return func(ctx context.Context) (more bool, err error) {
		defer func() { failed = err != nil }()
		if !attached || failed {
			closedEnd, newsEnd, n, err := m.o.Store.FollowEnd(ctx)
			if err != nil {
				return false, err
			}
			if !attached || closedEnd.Compare(closedAt) < 0 { // or Redis has lost what was read
				attached, closedAt, count = true, closedEnd, n
				m.sendAll(barsMissed{}) // for series that were read before
			}
			if newsEnd.Compare(newsAt) < 0 {
				newsAt = newsEnd
			}
		}
		begun := ready
		if !begun {
			if begun, err = m.begun(ctx); err != nil {
				return false, err
			}
		}
		closed, news, closedTo, newsTo, more, err := m.o.Store.Follow(ctx, closedAt, newsAt, readBlock)
		if err != nil {
			return false, err
		}
		closedAt, newsAt = closedTo, newsTo
		m.news.add(news)
		if begun && !ready && !more {
			ready = true
			close(m.news.ready)
		}
		for i := range closed {
			if closed[i].Count != count+1 {
				m.sendAll(barsMissed{})
			}
			count = closed[i].Count
			m.deliverClosed(&closed[i])
		}
		return more, nil
	}
}

// begun reports whether the simulated market, if it is configured, has stored its history, which
// ends with the records of assets.
func (m *Market) begun(ctx context.Context) (bool, error) {
	if !m.simulates {
		return true, nil
	}
	state, err := m.o.Store.State(ctx)
	return len(state.Assets) > 0, err
}

func (m *Market) deliverClosed(b *marketdata.ClosedBar) {
	w := (*m.watches.Load())[assets.Fold(b.Bar.Asset)]
	if w == nil {
		return
	}
	frame, ok := prices.FrameOf(b.Bar.Timeframe)
	if !ok { // the asset's record changed
		w.ref.Tell(barsMissed{})
		return
	}
	w.ref.Tell(barClosed{frame: frame, count: b.Count, bar: b.Bar.Bar})
}
