package feeder

import (
	"context"
	"slices"

	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// checkpointEvery is in milliseconds.
	checkpointEvery = 10_000
	// Sizes of one call to the store.
	fillChunk   = 4    // series
	closedChunk = 500  // bars
	newsChunk   = 1000 // items
)

// stepWriter gathers what a leadership changes in the records, and stores it under its epoch.
type stepWriter struct {
	*Feeder
	epoch  int64
	market *simulated.Market // nil without simulated assets

	step            marketdata.Step
	live            map[string]marketdata.Live
	ticksTo, barsTo signal.Position // up to where the streams from outside are in step
	changed         bool            // these positions are not stored yet
	trimBars        bool            // entries of market:bars were processed
	stored          int64           // when a step was last stored
	checkpointed    int64
}

func (w *stepWriter) gather(o simulated.Output) {
	w.step.Closed = append(w.step.Closed, o.Closed...)
	w.step.News = append(w.step.News, o.News...)
	for _, l := range o.Live {
		w.live[l.Asset] = l
	}
}

// urgent reports whether the step has what is stored at once.
func (w *stepWriter) urgent() bool { return len(w.step.Closed)+len(w.step.News)+len(w.step.Assets) > 0 }

// flush stores the pending step in pieces that do not block Redis. The last piece has the positions
// and new assets, so that an asset with a record has bars and a last tick.
func (w *stepWriter) flush(ctx context.Context) error {
	now, step := w.o.Now().UnixMilli(), &w.step
	step.Epoch = w.epoch
	for _, l := range w.live {
		step.Live = append(step.Live, l)
	}
	if now-w.checkpointed >= checkpointEvery {
		if w.market != nil {
			step.Checkpoint = w.market.Checkpoint()
		}
		w.checkpointed = now
	}
	size := len(step.Live) + len(step.Closed) + len(step.News) + len(step.Assets) + len(step.Removed)
	if !w.changed && size == 0 && step.Checkpoint == nil {
		w.stored = now
		return nil
	}
	for len(step.Closed) > closedChunk || len(step.News) > newsChunk {
		bars, news := min(len(step.Closed), closedChunk), min(len(step.News), newsChunk)
		piece := &marketdata.Step{Epoch: w.epoch, Ticks: step.Ticks, Bars: step.Bars,
			Closed: step.Closed[:bars], News: step.News[:news]}
		if err := w.store.Store(ctx, piece); err != nil {
			return err
		}
		step.Closed, step.News = step.Closed[bars:], step.News[news:]
	}
	step.Ticks, step.Bars = w.ticksTo, w.barsTo
	if err := w.store.Store(ctx, step); err != nil {
		return err
	}
	w.step = marketdata.Step{Ticks: w.ticksTo, Bars: w.barsTo}
	clear(w.live)
	w.changed, w.stored = false, now
	if w.trimBars {
		w.trimBars = false
		return w.store.TrimBars(ctx, w.barsTo)
	}
	return nil
}

// fill writes series in pieces that do not block Redis.
func (w *stepWriter) fill(ctx context.Context, series []marketdata.Series) error {
	for chunk := range slices.Chunk(series, fillChunk) {
		if err := w.store.Fill(ctx, w.epoch, chunk); err != nil {
			return err
		}
	}
	return nil
}

// tickChunk is the number of ticks in one call to the store.
const tickChunk = 1000

// tickWriter writes the ticks of sources for all nodes, in rounds.
type tickWriter struct {
	*Feeder
	epoch int64
}

// write writes ticks for all nodes.
func (w *tickWriter) write(ctx context.Context, ticks []marketdata.AssetTick) error {
	for chunk := range slices.Chunk(ticks, tickChunk) {
		if err := w.store.AppendRound(ctx, w.epoch, chunk); err != nil {
			return err
		}
		w.o.Metrics.addTicks(len(chunk))
	}
	return nil
}
