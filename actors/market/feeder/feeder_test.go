package feeder

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestSourcesAreChecked(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"simulated": "", "stream": "", "stream, simulated": "",
		"bloomberg":           `"bloomberg" is not known: use simulated, stream`,
		"simulated,":          `"" is not known`,
		"simulated,simulated": "twice",
	} {
		_, err := New(nil, Options{Node: "n", Sources: list})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", list, err)
		}
	}
	for _, o := range []Options{{}, {Node: "n", Speed: -1}, {Node: "n", Speed: 3601}} {
		if _, err := New(nil, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// ticksOf returns the ticks of an asset that feeders wrote.
func (b *bench) ticksOf(asset string) []marketdata.AssetTick {
	b.t.Helper()
	var all []marketdata.AssetTick
	for more, after := true, (signal.Position{}); more; {
		var entries []marketdata.Entry
		var err error
		if entries, more, err = b.store.ReadTicks(b.t.Context(), marketdata.OwnTicks, after, 0); err != nil {
			b.t.Fatal(err)
		}
		for i := range entries {
			after = entries[i].Position
			x, skipped := source.ParseTick(marketdata.OwnTicks, &entries[i])
			if skipped != "" {
				b.t.Fatalf("an invalid own tick: %s %v", skipped, entries[i].Fields)
			}
			if x.Asset == asset {
				all = append(all, x)
			}
		}
	}
	return all
}

// path returns the prices of an asset that feeders wrote, by time.
func (b *bench) path(asset string) map[int64]float64 {
	b.t.Helper()
	all := make(map[int64]float64)
	for _, x := range b.ticksOf(asset) {
		if before, twice := all[x.Time]; twice && before != x.Price {
			b.t.Fatalf("two prices at %d", x.Time)
		}
		all[x.Time] = x.Price
	}
	return all
}

// opened waits until a feeder has written the history.
func (b *bench) opened() {
	b.t.Helper()
	markettest.Eventually(b.t, "history", func() bool {
		_, _, err := b.store.Asset(b.t.Context(), "BTC")
		return err == nil
	})
}

// drive moves the clock in steps and waits after each until the market has followed.
func (b *bench) drive(c *markettest.Clock, step time.Duration, times int) {
	b.t.Helper()
	for range times {
		c.Add(step)
		want := c.Now().UnixMilli() / 100 * 100
		markettest.Eventually(b.t, fmt.Sprintf("tick of %d", want), func() bool {
			end, err := b.store.TicksEnd(b.t.Context(), marketdata.OwnTicks)
			if err != nil || end.IsZero() {
				return false
			}
			last, _, err := b.store.ReadTicks(b.t.Context(), marketdata.OwnTicks, signal.Position{MS: end.MS - 1}, 0)
			return err == nil && len(last) > 0 && last[len(last)-1].Tick.Time == want
		})
	}
}

func TestRestartContinuesThePath(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	const steps = 6
	whole := markettest.NewClock()
	one := newBench(t, whole.Now)
	one.feed(Options{Seed: 7})
	one.opened()
	one.drive(whole, 1100*time.Millisecond, steps)

	interrupted := markettest.NewClock()
	two := newBench(t, interrupted.Now)
	stop := two.feed(Options{Seed: 7})
	two.opened()
	two.drive(interrupted, 1100*time.Millisecond, 2)
	stop()
	interrupted.Add(1100 * time.Millisecond)       // without a feeder
	stop = two.feed(Options{Seed: 8, Node: "two"}) // the first seed stays
	two.drive(interrupted, 1100*time.Millisecond, 1)
	stop()
	two.feed(Options{Seed: 7})
	two.drive(interrupted, 1100*time.Millisecond, 2)

	if !whole.Now().Equal(interrupted.Now()) {
		t.Fatal("the clocks differ")
	}
	if d := cmp.Diff(one.path("BTC"), two.path("BTC")); d != "" {
		t.Errorf("ticks (-one feeder +three):\n%s", d)
	}
	for _, tf := range signal.Timeframes {
		var want, got []marketdata.AssetBar
		markettest.Eventually(t, "bars", func() bool {
			want, _, _ = one.store.Bars(t.Context(), "ETH", tf)
			got, _, _ = two.store.Bars(t.Context(), "ETH", tf)
			return len(want) > 0 && len(want) == len(got)
		})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-one feeder +three):\n%s", tf, d)
		}
	}
}

// fence pauses a feeder at a renewal of its lease.
type fence struct {
	Records
	renewed chan struct{}
	paused  chan struct{} // closed to continue
	lost    chan struct{} // closed once a renewal was refused
	once    sync.Once
}

func (f *fence) RenewLease(ctx context.Context, node string, epoch int64, lease time.Duration) error {
	select {
	case f.renewed <- struct{}{}:
		<-f.paused
	default:
	}
	err := f.Records.RenewLease(ctx, node, epoch, lease)
	if signal.KindOf(err) == signal.KindConflict {
		f.once.Do(func() { close(f.lost) })
	}
	return err
}

func TestAnotherFeederTakesOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	stopped := &fence{Records: b.store}
	stopped.renewed, stopped.paused, stopped.lost = make(chan struct{}), make(chan struct{}), make(chan struct{})
	first := newFeeder(t, stopped, Options{Node: "first", Lease: 2 * time.Second})
	first.known = specsOf("BTC", "ETH", "SOL")
	b.background(first.Run)
	<-stopped.renewed // it leads, and pauses
	b.feed(Options{Node: "second", Lease: 2 * time.Second})
	rdb := b.server.Client()
	markettest.Eventually(t, "second feeder", func() bool {
		return strings.HasPrefix(rdb.Get(t.Context(), keys.FeederKey()).Val(), "second ")
	})
	epoch, err := rdb.Get(t.Context(), keys.FeederEpochKey()).Int64()
	if err != nil {
		t.Fatal(err)
	}
	// Late writes of the first one are refused.
	err = b.store.Store(t.Context(), &marketdata.Step{Epoch: epoch - 1})
	if signal.KindOf(err) != signal.KindConflict {
		t.Errorf("a stale write: %v", err)
	}
	err = b.store.Fill(t.Context(), epoch-1, []marketdata.Series{{Asset: "BTC", Timeframe: signal.H1, Reset: true}})
	if signal.KindOf(err) != signal.KindConflict {
		t.Errorf("a stale series: %v", err)
	}
	close(stopped.paused)
	select {
	case <-stopped.lost:
	case <-time.After(markettest.WaitLimit):
		t.Error("the first feeder did not notice")
	}
	markettest.Eventually(t, "bars of the second feeder", func() bool {
		bars, _, err := b.store.Bars(t.Context(), "BTC", signal.H1)
		return err == nil && len(bars) >= 999
	})
}

// halting is a store of a feeder that halts once it has filled a series.
type halting struct {
	Records
	filled chan struct{}
}

func (h *halting) Fill(ctx context.Context, epoch int64, series []marketdata.Series) error {
	if err := h.Records.Fill(ctx, epoch, series[:1]); err != nil {
		return err
	}
	close(h.filled)
	<-ctx.Done()
	return ctx.Err()
}

// upToNow waits until the bars of an asset end now, and returns them.
func (b *bench) upToNow(asset string, frame int, speed int64) (bars []marketdata.AssetBar) {
	b.t.Helper()
	tf := signal.Timeframes[frame]
	markettest.Eventually(b.t, string(tf)+" up to now", func() bool {
		bars, _, _ = b.store.Bars(b.t.Context(), asset, tf)
		now := b.now().UnixMilli()
		end := int64(0)
		if n := len(bars); n > 0 {
			end = bars[n-1].CloseTime
		}
		return end <= now && end > now-prices.FrameMS[frame]/speed
	})
	return bars
}

// A market that begins again in the past, because the clock was far back, has no gap once the clock is right, even
// if the feeder ended before it had replaced all series.
func TestNoGapAfterTheClockWasBack(t *testing.T) {
	t.Parallel()
	const speed, back = 600, 20 * time.Minute
	for name, halts := range map[string]bool{"begun": false, "halted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := markettest.NewClock()
			b := newBench(t, c.Now)
			stop := b.feed(Options{Speed: speed})
			b.opened()
			b.drive(c, 1100*time.Millisecond, 1)
			stop()

			c.Add(-back)
			if halts {
				store := &halting{b.store, make(chan struct{})}
				f := newFeeder(t, store, Options{Node: "node", Speed: speed, Now: c.Now})
				f.known = specsOf("BTC", "ETH", "SOL")
				stop = b.background(f.Run)
				<-store.filled
			} else {
				stop = b.feed(Options{Speed: speed})
				b.upToNow("SOL", prices.D1, speed) // the last series that is filled
				c.Add(1100 * time.Millisecond)
				b.upToNow("SOL", prices.M1, speed)
			}
			stop()
			c.Add(back + 20*time.Second)
			b.feed(Options{Speed: speed})
			for frame, tf := range signal.Timeframes {
				bars := b.upToNow("BTC", frame, speed)
				for i := 1; i < len(bars); i++ {
					if gap := bars[i].OpenTime - bars[i-1].CloseTime; gap != 0 {
						t.Errorf("%s: %d ms without bars before %d", tf, gap, bars[i].OpenTime)
					}
				}
			}
		})
	}
}

func TestFeederSurvivesRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Now)
	m := b.market(market.Options{})
	b.feed(Options{})
	fresh := func() bool {
		s, err := m.Series(t.Context(), "SOL", signal.M1)
		return err == nil && time.Now().UnixMilli()-s.Last.Time < 1500
	}
	markettest.Eventually(t, "prices", fresh)
	b.server.Pause()
	time.Sleep(50 * time.Millisecond)
	b.server.Continue()
	b.server.Kill()
	b.server.Restart()
	markettest.Eventually(t, "prices after the restart", fresh)
}
