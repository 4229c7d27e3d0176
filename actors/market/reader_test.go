package market

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

type trimmedStore struct {
	*fakeStore
	at int64
}

func (f *trimmedStore) TicksKept(context.Context, marketdata.TickStream, signal.Position) (bool, error) {
	return false, nil
}

func (f *trimmedStore) ReadTicks(context.Context, marketdata.TickStream, signal.Position, time.Duration) (
	[]marketdata.Entry, error) {
	f.at++
	fields := map[string]string{"asset": "X", "price": "1"}
	return []marketdata.Entry{{Position: signal.Position{MS: f.at}, Fields: fields}}, nil
}

// No read fails while a process is halted, but ticks are trimmed.
func TestReaderNoticesTicksMissedInAHalt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFake(t, &fakeStore{}, markettest.NewClock())
		m.o.Store = &trimmedStore{fakeStore: &fakeStore{}}
		read := m.ticksReader(marketdata.GivenTicks)
		for _, c := range []struct {
			pause time.Duration
			ticks int
		}{{0, 1}, {time.Second, 2}, {readPause, 3}, {readPause + time.Second, 1}, {0, 2}} {
			time.Sleep(c.pause)
			if err := read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(m.tapes.upTo(tapeKey{"X", source.Stream}, 100)); got != c.ticks {
				t.Errorf("after a pause of %v %d ticks are on the tape, want %d", c.pause, got, c.ticks)
			}
		}
	})
}

// Only the assets whose ticks are in a stream are notified that some were missed.
func TestMissedTicksAreReportedToTheirAssets(t *testing.T) {
	t.Parallel()
	for _, stream := range []marketdata.TickStream{marketdata.GivenTicks, marketdata.OwnTicks} {
		synctest.Test(t, func(t *testing.T) {
			sys := engine.NewSystem(engine.Options{})
			defer sys.Shutdown(context.Background())
			m := New(sys, Options{Store: &trimmedStore{fakeStore: &fakeStore{}}, Now: markettest.NewClock().Now})
			missed := make(map[string]int)
			for _, source := range []string{source.Stream, simulated.Name} {
				w := &watch{key: source}
				w.record.Store(&marketdata.Asset{Symbol: source, Source: source})
				counter := missedCounter{missed, source}
				w.ref = sys.Spawn(engine.Asset, source, func() engine.Actor { return counter }, engine.Supervision{})
				m.setWatches(func(all map[string]*watch) { all[source] = w })
			}
			read := m.ticksReader(stream)
			for range 2 {
				if err := read(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(readPause + time.Second)
			}
			synctest.Wait()
			name := simulated.Name
			if stream == marketdata.GivenTicks {
				name = source.Stream
			}
			if diff := cmp.Diff(map[string]int{name: 1}, missed); diff != "" {
				t.Errorf("stream %d (-want +got):\n%s", stream, diff)
			}
		})
	}
}

// missedCounter counts by source the notices that ticks were missed.
type missedCounter struct {
	missed map[string]int
	source string
}

func (c missedCounter) Receive(ctx engine.Context) {
	if _, ok := ctx.Message().(ticksMissed); ok {
		c.missed[c.source]++
	}
}
