package market

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// trimmedStore is a store whose ticks are trimmed.
type trimmedStore struct {
	*fakeStore
	at int64
}

func (f *trimmedStore) TicksKept(context.Context, signal.TickStream, signal.Position) (bool, error) {
	return false, nil
}

func (f *trimmedStore) ReadTicks(context.Context, signal.TickStream, signal.Position, time.Duration) ([]signal.MarketEntry, error) {
	f.at++
	return []signal.MarketEntry{{Position: signal.Position{MS: f.at}, Fields: map[string]string{"asset": "X", "price": "1"}}}, nil
}

// TestAHaltedReaderNoticesWhatItMissed: no read fails while a process is halted, but
// ticks are trimmed.
func TestAHaltedReaderNoticesWhatItMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, newClock())
		m.o.Store = &trimmedStore{fakeStore: &fakeStore{}}
		read := m.ticksReader(signal.GivenTicks)
		for _, c := range []struct {
			pause time.Duration
			ticks int
		}{{0, 1}, {time.Second, 2}, {readPause, 3}, {readPause + time.Second, 1}, {0, 2}} {
			time.Sleep(c.pause)
			if err := read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(m.tapes.upTo(tapeKey{"X", streamName}, 100)); got != c.ticks {
				t.Errorf("after a pause of %v %d ticks are remembered, want %d", c.pause, got, c.ticks)
			}
		}
	})
}
