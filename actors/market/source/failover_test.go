package source

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// fakeVenue is a place that does as a test says. Its zero value, with a name, has every
// coin, and bars of all minutes up to now.
type fakeVenue struct {
	name    string
	now     func() time.Time
	streams bool

	mu    sync.Mutex
	fails error // of Bars
	quiet bool  // Bars has none of the last hour
	deaf  bool  // who follows is told nothing
	told  func(binance.Event)
	asked int
}

func (*fakeVenue) Listed(context.Context) ([]string, bool, error) { return nil, false, nil }

func (v *fakeVenue) Name() string                               { return v.name }
func (v *fakeVenue) Class() string                              { return assets.Crypto }
func (v *fakeVenue) Symbol(symbol, class string) (string, bool) { return CoinOf(symbol, class) }
func (v *fakeVenue) Run(context.Context)                        {}
func (v *fakeVenue) Ping(context.Context) (int64, error)        { return 0, nil }

func (v *fakeVenue) Bars(_ context.Context, _ string, tf signal.Timeframe, from, to int64) ([]marketdata.Bar, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	if v.fails != nil {
		return nil, v.fails
	}
	if from > to {
		return nil, &fetch.Error{Source: v.name, Kind: fetch.Refused, Status: 400}
	}
	if v.quiet {
		to = min(to, v.now().UnixMilli()-3_600_000)
	}
	frame, _ := prices.FrameOf(tf)
	step := prices.FrameMS[frame]
	var bars []marketdata.Bar
	for open := (from + step - 1) / step * step; open < to; open += step {
		p := markettest.PriceAt(open)
		bars = append(bars, marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: p, High: p + 5, Low: p - 5, Close: p, Volume: 1})
	}
	return bars, nil
}

func (v *fakeVenue) Follow(_ string, told func(binance.Event)) (func(), bool) {
	if !v.streams {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told = told
	if !v.deaf {
		told(binance.Event{Kind: binance.Up})
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.told = nil
	}, true
}

// set changes v while it is asked.
func (v *fakeVenue) set(change func(v *fakeVenue)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

// tell tells who follows.
func (v *fakeVenue) tell(e binance.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.told != nil {
		v.told(e)
	}
}

// keeping is a keeper of BTC at two venues in a bubble: the first tells by itself, the
// second must be asked.
type keeping struct {
	*markettest.Clock
	first, second *fakeVenue
	keeper        *AssetFeed

	mu  sync.Mutex
	got []Delivery
}

// keep runs test with a keeper whose clock goes with that of the bubble.
func keep(t *testing.T, test func(t *testing.T, k *keeping)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, ahead := time.Now(), markettest.NewClock()
		now := func() time.Time { return ahead.Now().Add(time.Since(begun)) }
		k := &keeping{Clock: ahead, first: &fakeVenue{name: "first", now: now, streams: true}, second: &fakeVenue{name: "second", now: now}}
		out := make(chan Delivery)
		o := FeedOptions{Venues: []Venue{k.first, k.second}, Now: now, Log: slog.New(slog.DiscardHandler), Out: out}
		k.keeper = NewAssetFeed(o, "BTC", assets.Crypto)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			for {
				select {
				case x := <-out:
					k.mu.Lock()
					k.got = append(k.got, x)
					k.mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		})
		group.Go(func() { k.keeper.Run(ctx) })
		defer group.Wait()
		defer cancel()
		time.Sleep(time.Second)
		test(t, k)
	})
}

// source is who gives the prices now; empty: nobody yet.
func (k *keeping) source() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	source := ""
	for i := range k.got {
		if r := k.got[i].Record; r != nil {
			source = r.Source
		}
	}
	return source
}

// since returns what was delivered from the nth delivery on.
func (k *keeping) since(n int) []Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got[n:]
}

func (k *keeping) expect(t *testing.T, when, source string) {
	t.Helper()
	synctest.Wait()
	if got := k.source(); got != source {
		t.Fatalf("%s the prices are those of %q, want %q", when, got, source)
	}
}

// live has the first venue tell what it does in so many seconds: a trade a second, and the bar
// of each minute, with a volume.
func (k *keeping) live(seconds int, trades bool, volume float64) {
	for range seconds {
		time.Sleep(time.Second)
		now := k.first.now().UnixMilli()
		minute := now - now%60_000
		if trades {
			k.first.tell(binance.Event{Kind: binance.Trade, Tick: marketdata.Tick{Price: markettest.PriceAt(minute), Volume: 1, Time: now}})
		}
		if now%60_000 < 1000 {
			p := markettest.PriceAt(minute - 60_000)
			k.first.tell(binance.Event{Kind: binance.Closed, Bar: marketdata.Bar{OpenTime: minute - 60_000, CloseTime: minute,
				Open: p, High: p + 5, Low: p - 5, Close: p, Volume: volume}})
		} else {
			k.first.tell(binance.Event{Kind: binance.Alive})
		}
	}
}

func TestALostConnectionIsWaitedFor(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		k.expect(t, "at first", "first")
		k.first.tell(binance.Event{Kind: binance.Down})
		time.Sleep(downFor - time.Second)
		k.expect(t, "just before the time is over", "first")
		k.first.tell(binance.Event{Kind: binance.Up})
		k.live(30, true, 1)
		k.expect(t, "after it came back in time", "first")
		k.first.tell(binance.Event{Kind: binance.Down})
		time.Sleep(downFor + time.Second)
		k.expect(t, "after it was away for too long", "second")
	})
}

func TestASilentSourceIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(k *keeping)
		want    string
	}{
		"not a word for less":              {func(k *keeping) { time.Sleep(silentFor - 2*time.Second) }, "first"},
		"not a word":                       {func(k *keeping) { time.Sleep(silentFor + time.Second) }, "second"},
		"bars of trades that are not told": {func(k *keeping) { k.live(180, false, 1) }, "second"},
		"nothing is traded":                {func(k *keeping) { k.live(600, false, 0) }, "first"},
		"trades and bars":                  {func(k *keeping) { k.live(600, true, 1) }, "first"},
		"it does not know it any more":     {func(k *keeping) { k.first.tell(binance.Event{Kind: binance.Refused}); time.Sleep(time.Second) }, "second"},
		"bars are late and not given": {func(k *keeping) {
			k.first.set(func(v *fakeVenue) { v.fails = errors.New("away") })
			for range 100 {
				k.first.tell(binance.Event{Kind: binance.Alive})
				time.Sleep(time.Second)
			}
		}, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(t *testing.T, k *keeping) {
				k.live(10, true, 1)
				k.expect(t, "at first", "first")
				c.happens(k)
				k.expect(t, "then", c.want)
			})
		})
	}
}

// Who tells nothing at the beginning is not waited for.
func TestASourceThatDoesNotConnectIsLeft(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		k.first.set(func(v *fakeVenue) { v.deaf = true })
		k.first.tell(binance.Event{Kind: binance.Down})
		time.Sleep(downFor + upWithin + 2*time.Second)
		k.expect(t, "without a connection", "second")
		// Its bars alone do not make it work again.
		time.Sleep(3 * returnAfter)
		k.expect(t, "while it has bars but tells nothing", "second")
		// Nor is it waited for where the other one fails.
		k.second.set(func(v *fakeVenue) { v.fails = errors.New("away") })
		time.Sleep(failedAsks*time.Minute + upWithin)
		k.second.set(func(v *fakeVenue) { v.fails = nil })
		before := len(k.since(0))
		time.Sleep(2 * time.Minute)
		if len(k.since(before)) == 0 {
			t.Error("the second is not asked again")
		}
	})
}

func TestAnAskedSourceIsLeftWhenItFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(v *fakeVenue)
		after time.Duration // it is left; sooner than the first is returned to
	}{
		"no answer":    {func(v *fakeVenue) { v.fails = errors.New("away") }, failedAsks * time.Minute},
		"not any more": {func(v *fakeVenue) { v.fails = fetch.ErrUnknown }, time.Minute},
		"nothing new":  {func(v *fakeVenue) { v.quiet = true }, quietFor * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(t *testing.T, k *keeping) {
				k.first.set(func(v *fakeVenue) { v.fails = errors.New("away") })
				k.first.tell(binance.Event{Kind: binance.Down})
				time.Sleep(downFor + 2*time.Minute)
				k.expect(t, "at first", "second")
				k.second.set(c.fail)
				time.Sleep(c.after - time.Minute)
				k.expect(t, "before it has failed for good", "second")
				k.first.set(func(v *fakeVenue) { v.fails = nil })
				time.Sleep(2 * time.Minute)
				k.expect(t, "after it failed", "first")
			})
		})
	}
}

func TestASourceThatComesBeforeIsReturnedTo(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		fail := func(v *fakeVenue) { v.fails = errors.New("away") }
		work := func(v *fakeVenue) { v.fails = nil }
		k.first.set(fail)
		k.first.tell(binance.Event{Kind: binance.Down})
		time.Sleep(downFor + time.Second)
		k.expect(t, "while the first fails", "second")
		time.Sleep(2 * returnAfter)
		k.expect(t, "as long as it fails", "second")
		// It works, but not for long enough.
		for range 3 {
			k.first.set(work)
			time.Sleep(returnAfter - time.Minute)
			k.first.set(fail)
			time.Sleep(2 * time.Minute)
		}
		k.expect(t, "after it worked now and then", "second")
		k.first.set(work)
		time.Sleep(returnAfter - time.Minute)
		k.first.tell(binance.Event{Kind: binance.Down})
		k.first.tell(binance.Event{Kind: binance.Up})
		time.Sleep(returnAfter - time.Minute)
		k.expect(t, "after its connection was renewed", "second")
		time.Sleep(4 * time.Minute)
		k.expect(t, "after it worked for long enough", "first")
		k.live(30, true, 1)
		k.expect(t, "then", "first")
	})
}

// The one that fails the asset is asked again after its rest, if no other is left.
func TestTheOnlySourceIsTriedAgain(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		fault := &fetch.Error{Source: "first", Kind: fetch.Banned, RetryAfter: 5 * time.Minute}
		k.second.set(func(v *fakeVenue) { v.fails = fetch.ErrUnknown })
		k.first.set(func(v *fakeVenue) { v.fails = fault })
		k.first.tell(binance.Event{Kind: binance.Down})
		time.Sleep(downFor + venueRest + 10*time.Second) // it has failed once more, and bans us
		k.first.set(func(v *fakeVenue) { v.fails, v.asked = nil, 0 })
		before := len(k.since(0))
		time.Sleep(4 * time.Minute)
		asked := 0
		k.first.set(func(v *fakeVenue) { asked = v.asked })
		if asked != 0 || len(k.since(before)) != 0 {
			t.Fatalf("it was asked %d times although it wants rest", asked)
		}
		time.Sleep(90 * time.Second)
		missed := k.since(before)
		if len(missed) == 0 || missed[0].Missed == 0 || len(missed[0].Bars) < 4 {
			t.Errorf("what was missed did not come first: %+v", missed)
		}
	})
}

// While our clock is wrong no trade can be judged. What was refused is made up for by bars
// once it is right.
func TestAClockThatJumpsLosesNothing(t *testing.T) {
	for name, renewed := range map[string]bool{"connection stays": false, "connection is renewed": true} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(t *testing.T, k *keeping) {
				k.live(70, true, 1)
				last, before := k.keeper.ticked, len(k.since(0))
				k.Clock.Add(-time.Hour)
				at := last + 30_000
				for range 30 {
					time.Sleep(time.Second)
					k.first.tell(binance.Event{Kind: binance.Trade, Tick: marketdata.Tick{Price: markettest.PriceAt(at) + 3, Volume: 1, Time: at}})
				}
				if renewed {
					k.first.tell(binance.Event{Kind: binance.Down})
					k.first.tell(binance.Event{Kind: binance.Up})
					time.Sleep(time.Second)
				}
				k.expect(t, "while the clock is wrong", "first")
				for _, d := range k.since(before) {
					if len(d.Ticks) > 0 {
						t.Errorf("a trade from the future is taken: %+v", d.Ticks)
					}
				}
				k.Clock.Add(time.Hour)
				k.live(150, true, 1)
				k.expect(t, "afterwards", "first")
				if !slices.ContainsFunc(k.since(before), func(d Delivery) bool {
					return d.Missed != 0 && d.Missed <= last && slices.ContainsFunc(d.Bars, func(b marketdata.Bar) bool { return b.OpenTime <= at && at < b.CloseTime })
				}) {
					t.Errorf("nothing makes up for a trade at %d", at)
				}
			})
		})
	}
}

// Who is asked is not blamed for our clock.
func TestAnAskedSourceOutlivesAClockThatJumps(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		k.first.set(func(v *fakeVenue) { v.fails = fetch.ErrUnknown })
		k.first.tell(binance.Event{Kind: binance.Refused})
		time.Sleep(time.Minute)
		k.expect(t, "at first", "second")
		k.Clock.Add(-time.Hour)
		time.Sleep(10 * time.Minute)
		k.Clock.Add(time.Hour)
		failed, before := len(k.keeper.rests), len(k.since(0))
		time.Sleep(2 * time.Minute)
		got := k.since(before)
		if failed != 1 || len(got) == 0 || len(got[0].Bars) < 10 {
			t.Errorf("%d sources were left; then came %+v", failed, got)
		}
	})
}

// Bars that are told are held to the same rules as those that were asked for.
func TestToldBarsAreChecked(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		k.live(70, true, 1)
		minute := k.first.now().UnixMilli() / 60_000 * 60_000
		good := func(open int64) marketdata.Bar {
			p := markettest.PriceAt(open)
			return marketdata.Bar{OpenTime: open, CloseTime: open + 60_000, Open: p, High: p + 5, Low: p - 5, Close: p, Volume: 1}
		}
		bad := func(change func(b *marketdata.Bar)) marketdata.Bar {
			b := good(minute - 60_000)
			b.Volume = 77
			change(&b)
			return b
		}
		before := len(k.since(0))
		for _, b := range []marketdata.Bar{
			bad(func(b *marketdata.Bar) { b.High = math.NaN() }),
			bad(func(b *marketdata.Bar) { b.Low = -1 }),
			bad(func(b *marketdata.Bar) { b.High, b.Low = b.Low, b.High }),
			bad(func(b *marketdata.Bar) { b.Open, b.High, b.Low, b.Close = 1/b.Open, 1/b.Low, 1/b.High, 1/b.Close }),
			bad(func(b *marketdata.Bar) { b.OpenTime, b.CloseTime = minute+60_000, minute+120_000 }),         // of the future
			bad(func(b *marketdata.Bar) { b.OpenTime, b.CloseTime = minute, minute+60_000 }),                 // open still
			bad(func(b *marketdata.Bar) { b.OpenTime, b.CloseTime = minute-600_000, minute-600_000+60_000 }), // long ago
			bad(func(b *marketdata.Bar) { b.CloseTime += 60_000 }),
			good(minute - 60_000), good(minute - 60_000), // once more
		} {
			k.first.tell(binance.Event{Kind: binance.Closed, Bar: b})
		}
		time.Sleep(time.Second)
		n := 0
		for _, d := range k.since(before) {
			for _, b := range d.Bars {
				n++
				if b != good(minute-60_000) {
					t.Errorf("%+v is taken", b)
				}
			}
		}
		if n == 0 {
			t.Error("a good bar is not taken")
		}
		k.expect(t, "then", "first")
	})
}

// A source may be late with the end of a bar that has closed just now.
func TestBarsThatMayLackTheirEndAreBuilt(t *testing.T) {
	keep(t, func(t *testing.T, k *keeping) {
		now := k.first.now().UnixMilli()
		want := []int64{now - now%60_000, now - now%300_000 - 300_000, now - now%3_600_000, now - now%86_400_000}
		for i, s := range k.since(0)[0].Series {
			if newest := s.Bars[len(s.Bars)-1].CloseTime; newest != want[i] {
				t.Errorf("%s: the newest bar closed at %d, want %d", s.Timeframe, newest, want[i])
			}
		}
	})
}
