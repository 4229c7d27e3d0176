package market

import (
	"context"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Past is Series however old the bars are: what lies behind does not become stale. Last
// is the close of the newest bar.
func (m *Market) Past(ctx context.Context, name string, tf signal.Timeframe) (Snapshot, error) {
	frame, ok := frameOf(tf)
	if !ok {
		return Snapshot{}, &signal.RunError{Code: signal.Internal, Message: "timeframe is not known"}
	}
	w := (*m.watches.Load())[assetKey(canonical(name))]
	if w == nil || w.series[frame].Load() == nil {
		var err error
		if w, err = m.load(ctx, name, frame); err != nil {
			return Snapshot{}, err
		}
	}
	record, series := w.record.Load(), w.series[frame].Load()
	switch {
	case series == nil:
		return Snapshot{}, m.unreachable(nil) // the actor began anew just now
	case series.err != nil:
		return Snapshot{}, series.err
	case len(series.bars) == 0:
		return Snapshot{}, &signal.RunError{Code: signal.InsufficientHistory,
			Message: fmt.Sprintf("there are no bars of %s for %s", tf, record.Symbol)}
	}
	newest := &series.bars[len(series.bars)-1]
	return Snapshot{Asset: assetOf(*record), Bars: series.bars, Source: record.Source, Compression: float64(record.Speed),
		Last: Tick{Price: newest.Close, Time: newest.CloseTime}}, nil
}

// ClassOf returns the class of the known asset that name means by any of its spellings;
// empty for others.
func ClassOf(name string) string {
	if k := lookUp(name); k != nil {
		return k.class
	}
	return ""
}
