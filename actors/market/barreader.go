package market

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// barReader reads new closed bars and all news. But for reading, its fields belong to the goroutine that reads.
type barReader struct {
	reading   reading
	store     Store
	watches   *watches
	news      *newsIndex
	simulates bool // the simulated market is configured

	closedAt, newsAt signal.Position
	count            int64 // of closed bars
	attached         bool
	ready            bool // all stored news are read
	failed           bool // the last read failed
}

// read reads what there is since its last call.
func (r *barReader) read(ctx context.Context) (more bool, err error) {
	defer func() { r.failed = err != nil }()
	if !r.attached || r.failed {
		if err := r.attach(ctx); err != nil {
			return false, err
		}
	}
	begun := r.ready
	if !begun {
		if begun, err = r.begun(ctx); err != nil {
			return false, err
		}
	}
	closed, news, closedTo, newsTo, more, err := r.store.Follow(ctx, r.closedAt, r.newsAt, readBlock)
	if err != nil {
		return false, err
	}
	r.closedAt, r.newsAt = closedTo, newsTo
	r.news.add(news)
	if begun && !r.ready && !more {
		r.ready = true
		close(r.news.ready)
	}
	for i := range closed {
		if closed[i].Count != r.count+1 {
			r.watches.tell(barsMissed{})
		}
		r.count = closed[i].Count
		r.deliver(&closed[i])
	}
	return more, nil
}

// attach finds the ends of the streams.
func (r *barReader) attach(ctx context.Context) error {
	closedEnd, newsEnd, n, err := r.store.FollowEnd(ctx)
	if err != nil {
		return err
	}
	if !r.attached || closedEnd.Compare(r.closedAt) < 0 { // or Redis has lost what was read
		r.attached, r.closedAt, r.count = true, closedEnd, n
		r.watches.tell(barsMissed{}) // for series that were read before
	}
	if newsEnd.Compare(r.newsAt) < 0 {
		r.newsAt = newsEnd
	}
	return nil
}

// begun reports whether the simulated market, if it is configured, has stored its history, which
// ends with the records of assets.
func (r *barReader) begun(ctx context.Context) (bool, error) {
	if !r.simulates {
		return true, nil
	}
	state, err := r.store.State(ctx)
	return len(state.Assets) > 0, err
}

func (r *barReader) deliver(b *marketdata.ClosedBar) {
	w := r.watches.get(assets.Fold(b.Bar.Asset))
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
