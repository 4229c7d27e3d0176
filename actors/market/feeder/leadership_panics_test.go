package feeder

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// panickingStore panics at its first read of ticks, its second of bars, and its first write of
// ticks.
type panickingStore struct {
	Records
	ticks, bars, steps atomic.Int64
}

func (s *panickingStore) ReadTicks(ctx context.Context, from marketdata.TickStream, after signal.Position,
	block time.Duration) ([]marketdata.Entry, error) {
	if s.ticks.Add(1) == 1 {
		panic("at a tick")
	}
	return s.Records.ReadTicks(ctx, from, after, block)
}

func (s *panickingStore) ReadBars(ctx context.Context, after signal.Position, block time.Duration) (
	[]marketdata.Entry, error) {
	if s.bars.Add(1) == 2 {
		panic("at a bar")
	}
	return s.Records.ReadBars(ctx, after, block)
}

func (s *panickingStore) AppendTicks(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error {
	if s.steps.Add(1) == 1 {
		panic("at a step")
	}
	return s.Records.AppendTicks(ctx, epoch, ticks)
}

func TestPanicsEndLeadershipsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	store := &panickingStore{Records: b.store}
	f := newFeeder(t, store, Options{Node: "first", Lease: 2 * time.Second})
	f.known = specsOf("BTC")
	b.background(f.Run)
	markettest.Eventually(t, "reads and steps after a panic", func() bool {
		return store.ticks.Load() > 2 && store.bars.Load() > 3 && store.steps.Load() > 2
	})
}
