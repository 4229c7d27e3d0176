package market

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// readPause is the pause between two reads of ticks after which some may have been trimmed unread.
const readPause = time.Minute

// tickReader reads a stream of ticks from its beginning and passes them to the assets' actors. But for reading, its
// fields belong to the goroutine that reads.
type tickReader struct {
	reading reading
	stream  marketdata.TickStream
	store   Store
	watches *watches
	recent  *recentTicks
	log     *slog.Logger

	at, end  signal.Position // what is read, and the initial end of the stream
	before   time.Time       // when the last read ended
	attached bool            // end is known
	caughtUp bool            // all up to end is read
	failed   bool            // the last read failed
}

// read reads the ticks since its last call, and all of them at first.
func (r *tickReader) read(ctx context.Context) (more bool, err error) {
	// A process that was halted notices it only by the time.
	r.failed = r.failed || time.Now().Round(0).Sub(r.before) > readPause
	defer func() { r.failed, r.before = err != nil, time.Now().Round(0) }()
	if !r.attached {
		if r.end, err = r.store.TicksEnd(ctx, r.stream); err != nil {
			return false, err
		}
		r.attached = true
	}
	if r.failed && !r.at.IsZero() {
		if err := r.checkKept(ctx); err != nil {
			return false, err
		}
	}
	entries, more, err := r.store.ReadTicks(ctx, r.stream, r.at, readBlock)
	if errors.Is(err, marketdata.ErrRestarted) {
		r.at = signal.Position{}
		r.missed()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for i := range entries {
		r.at = entries[i].Position
	}
	r.deliver(entries)
	if r.at.Compare(r.end) >= 0 && !r.caughtUp {
		r.caughtUp = true
		r.recent.caughtUp()
	}
	return more, nil
}

// checkKept finds out whether ticks after the last one that was read were trimmed or lost.
func (r *tickReader) checkKept(ctx context.Context) error {
	kept, err := r.store.TicksKept(ctx, r.stream, r.at)
	if err != nil || kept {
		return err
	}
	newest, err := r.store.TicksEnd(ctx, r.stream)
	if err != nil {
		return err
	}
	if newest.Compare(r.at) < 0 { // Redis has lost what was read
		r.at = newest
	}
	r.missed()
	return nil
}

// missed makes alerts catch up by bars, since ticks may never be read.
func (r *tickReader) missed() {
	r.log.Warn("ticks were missed: alerts catch up by bars", "own", r.stream == marketdata.OwnTicks)
	r.recent.clear(r.stream)
	for _, w := range *r.watches.all.Load() {
		if streamOf(w.record.Load().Source) == r.stream {
			w.ref.Tell(ticksMissed{})
		}
	}
}

// deliver keeps ticks and passes them to the assets' actors.
func (r *tickReader) deliver(entries []marketdata.Entry) {
	r.recent.mu.Lock()
	defer r.recent.mu.Unlock()
	watches := *r.watches.all.Load()
	panics.GuardEach(r.log, panics.Market, len(entries), func(i int) {
		t, skipped := source.ParseTick(r.stream, &entries[i])
		if skipped != "" {
			return // the feeder counts and logs it
		}
		key := assets.Fold(t.Asset) // own ticks have the symbol of the record
		if r.stream == marketdata.GivenTicks {
			key = assets.Key(t.Asset)
		}
		r.recent.note(tickKey{key, t.Source}, t.Tick, entries[i].Position.MS, t.Missed != 0)
		if w := watches[key]; w != nil {
			w.ref.Tell(ticked{t})
		}
	}, func(i int) []any {
		return []any{"own", r.stream == marketdata.OwnTicks, "at", entries[i].Position.String()}
	})
}
