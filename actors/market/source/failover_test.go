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

// fakeVenue is a venue that a test controls. By default it has every coin and all bars up to now.
type fakeVenue struct {
	name    string
	now     func() time.Time
	streams bool

	mu     sync.Mutex
	fails  error // of Bars
	quiet  bool  // it has no bars of the last hour
	mute   bool  // it sends no events
	notify func(binance.Event)
	asked  int
}

func (v *fakeVenue) Name() string                               { return v.name }
func (*fakeVenue) Listed(context.Context) ([]string, error)     { return nil, nil }
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
		bars = append(bars, venueBar(open, step))
	}
	return bars, nil
}

func venueBar(open, length int64) marketdata.Bar {
	b := markettest.FlatBar(open, length, markettest.PriceAt(open))
	b.High, b.Low, b.Volume = b.High+5, b.Low-5, 1
	return b
}

func (v *fakeVenue) Follow(_ string, notify func(binance.Event)) (func(), bool) {
	if !v.streams {
		return nil, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notify = notify
	if !v.mute {
		notify(binance.Event{Kind: binance.Up})
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.notify = nil
	}, true
}

func (v *fakeVenue) set(change func(v *fakeVenue)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(v)
}

func (v *fakeVenue) send(e binance.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.notify != nil {
		v.notify(e)
	}
}

// sendKind sends an event without a tick or bar.
func (v *fakeVenue) sendKind(kind binance.EventKind) { v.send(binance.Event{Kind: kind}) }

// fail makes requests for bars fail with err, or succeed if it is nil.
func (v *fakeVenue) fail(err error) { v.set(func(v *fakeVenue) { v.fails = err }) }

var errAway = errors.New("away")

// btcFeed is a feed of BTC with two venues in a synctest bubble. The first streams, the second is polled.
type btcFeed struct {
	*markettest.Clock
	first, second *fakeVenue
	feed          *AssetFeed

	mu  sync.Mutex
	got []Delivery
}

// withFeed runs test with a btcFeed whose clock follows that of the bubble.
func withFeed(t *testing.T, test func(t *testing.T, k *btcFeed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, ahead := time.Now(), markettest.NewClock()
		now := func() time.Time { return ahead.Now().Add(time.Since(begun)) }
		first, second := &fakeVenue{name: "first", now: now, streams: true}, &fakeVenue{name: "second", now: now}
		k := &btcFeed{Clock: ahead, first: first, second: second}
		out := make(chan Delivery)
		o := FeedOptions{Venues: []Venue{k.first, k.second}, Now: now, Log: slog.New(slog.DiscardHandler), Out: out}
		k.feed = NewAssetFeed(o, "BTC", assets.Crypto)
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
		group.Go(func() { k.feed.Run(ctx) })
		defer group.Wait()
		defer cancel()
		time.Sleep(time.Second)
		test(t, k)
	})
}

// source returns the current source of the prices, or an empty string.
func (k *btcFeed) source() string {
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

// since returns the deliveries from the nth on.
func (k *btcFeed) since(n int) []Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got[n:]
}

func (k *btcFeed) expect(t *testing.T, when, source string) {
	t.Helper()
	synctest.Wait()
	if got := k.source(); got != source {
		t.Fatalf("%s the source is %q, want %q", when, got, source)
	}
}

// live lets seconds pass in which the first venue sends a trade a second, if trades is set, and the
// bar of each minute with a volume.
func (k *btcFeed) live(seconds int, trades bool, volume float64) {
	for range seconds {
		time.Sleep(time.Second)
		now := k.first.now().UnixMilli()
		minute := now - now%60_000
		if trades {
			tick := marketdata.Tick{Price: markettest.PriceAt(minute), Volume: 1, Time: now}
			k.first.send(binance.Event{Kind: binance.Trade, Tick: tick})
		}
		if now%60_000 < 1000 {
			bar := venueBar(minute-60_000, 60_000)
			bar.Volume = volume
			k.first.send(binance.Event{Kind: binance.Closed, Bar: bar})
		} else {
			k.first.sendKind(binance.Alive)
		}
	}
}

func TestLostConnectionMayComeBack(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.expect(t, "at first", "first")
		k.first.sendKind(binance.Down)
		time.Sleep(downFor - time.Second)
		k.expect(t, "just before the time is over", "first")
		k.first.sendKind(binance.Up)
		k.live(30, true, 1)
		k.expect(t, "after it came back in time", "first")
		k.first.sendKind(binance.Down)
		time.Sleep(downFor + time.Second)
		k.expect(t, "after it was away for too long", "second")
	})
}

func TestSilentSourceIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(k *btcFeed)
		want    string
	}{
		"no event for less":                {func(k *btcFeed) { time.Sleep(silentFor - 2*time.Second) }, "first"},
		"no event":                         {func(k *btcFeed) { time.Sleep(silentFor + time.Second) }, "second"},
		"bars of trades that are not sent": {func(k *btcFeed) { k.live(180, false, 1) }, "second"},
		"nothing is traded":                {func(k *btcFeed) { k.live(600, false, 0) }, "first"},
		"trades and bars":                  {func(k *btcFeed) { k.live(600, true, 1) }, "first"},
		"it refuses the asset": {func(k *btcFeed) {
			k.first.sendKind(binance.Refused)
			time.Sleep(time.Second)
		}, "second"},
		"bars are late and not given": {func(k *btcFeed) {
			k.first.fail(errAway)
			for range 100 {
				k.first.sendKind(binance.Alive)
				time.Sleep(time.Second)
			}
		}, "second"},
	} {
		t.Run(name, func(t *testing.T) {
			withFeed(t, func(t *testing.T, k *btcFeed) {
				k.live(10, true, 1)
				k.expect(t, "at first", "first")
				c.happens(k)
				k.expect(t, "then", c.want)
			})
		})
	}
}

func TestSourceThatDoesNotConnectIsLeft(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.first.set(func(v *fakeVenue) { v.mute = true })
		k.first.sendKind(binance.Down)
		time.Sleep(downFor + upWithin + 2*time.Second)
		k.expect(t, "without a connection", "second")
		// Its bars alone do not make it work again.
		time.Sleep(3 * returnAfter)
		k.expect(t, "while it has bars but sends nothing", "second")
		// The feed does not wait for it while the other one fails.
		k.second.fail(errAway)
		time.Sleep(maxFailedAsks*time.Minute + upWithin)
		k.second.fail(nil)
		before := len(k.since(0))
		time.Sleep(2 * time.Minute)
		if len(k.since(before)) == 0 {
			t.Error("the second is not used again")
		}
	})
}

func TestPolledSourceIsLeftWhenItFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(v *fakeVenue)
		after time.Duration // when it is left, sooner than the feed returns to the first
	}{
		"no answer":    {func(v *fakeVenue) { v.fails = errAway }, maxFailedAsks * time.Minute},
		"not any more": {func(v *fakeVenue) { v.fails = fetch.ErrUnknown }, time.Minute},
		"nothing new":  {func(v *fakeVenue) { v.quiet = true }, quietFor * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			withFeed(t, func(t *testing.T, k *btcFeed) {
				k.first.fail(errAway)
				k.first.sendKind(binance.Down)
				time.Sleep(downFor + 2*time.Minute)
				k.expect(t, "at first", "second")
				k.second.set(c.fail)
				time.Sleep(c.after - time.Minute)
				k.expect(t, "before it has failed for good", "second")
				k.first.fail(nil)
				time.Sleep(2 * time.Minute)
				k.expect(t, "after it failed", "first")
			})
		})
	}
}

func TestFeedReturnsToAPreferredSource(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.first.fail(errAway)
		k.first.sendKind(binance.Down)
		time.Sleep(downFor + time.Second)
		k.expect(t, "while the first fails", "second")
		time.Sleep(2 * returnAfter)
		k.expect(t, "as long as it fails", "second")
		// It works, but not for long enough.
		for range 3 {
			k.first.fail(nil)
			time.Sleep(returnAfter - time.Minute)
			k.first.fail(errAway)
			time.Sleep(2 * time.Minute)
		}
		k.expect(t, "after it worked now and then", "second")
		k.first.fail(nil)
		time.Sleep(returnAfter - time.Minute)
		k.first.sendKind(binance.Down)
		k.first.sendKind(binance.Up)
		time.Sleep(returnAfter - time.Minute)
		k.expect(t, "after its connection was renewed", "second")
		time.Sleep(4 * time.Minute)
		k.expect(t, "after it worked for long enough", "first")
		k.live(30, true, 1)
		k.expect(t, "then", "first")
	})
}

// A venue that failed the asset is used again after its rest, if there is no other.
func TestOnlySourceIsTriedAgain(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		fault := &fetch.Error{Source: "first", Kind: fetch.Banned, RetryAfter: 5 * time.Minute}
		k.second.fail(fetch.ErrUnknown)
		k.first.fail(fault)
		k.first.sendKind(binance.Down)
		time.Sleep(downFor + venueRest + 10*time.Second) // it has failed once more, and bans us
		k.first.set(func(v *fakeVenue) { v.fails, v.asked = nil, 0 })
		before := len(k.since(0))
		time.Sleep(4 * time.Minute)
		asked := 0
		k.first.set(func(v *fakeVenue) { asked = v.asked })
		if asked != 0 || len(k.since(before)) != 0 {
			t.Fatalf("%d requests although it asked for rest", asked)
		}
		time.Sleep(90 * time.Second)
		missed := k.since(before)
		if len(missed) == 0 || missed[0].Missed == 0 || len(missed[0].Bars) < 4 {
			t.Errorf("the missed bars did not come first: %+v", missed)
		}
	})
}

// While our clock is wrong trades are refused, and bars make up for them once it is right.
func TestJumpOfTheClockLosesNothing(t *testing.T) {
	for name, renewed := range map[string]bool{"connection stays": false, "connection is renewed": true} {
		t.Run(name, func(t *testing.T) {
			withFeed(t, func(t *testing.T, k *btcFeed) {
				k.live(70, true, 1)
				last, before := k.feed.ticked, len(k.since(0))
				k.Clock.Add(-time.Hour)
				at := last + 30_000
				for range 30 {
					time.Sleep(time.Second)
					tick := marketdata.Tick{Price: markettest.PriceAt(at) + 3, Volume: 1, Time: at}
					k.first.send(binance.Event{Kind: binance.Trade, Tick: tick})
				}
				if renewed {
					k.first.sendKind(binance.Down)
					k.first.sendKind(binance.Up)
					time.Sleep(time.Second)
				}
				k.expect(t, "while the clock is wrong", "first")
				for _, d := range k.since(before) {
					if len(d.Ticks) > 0 {
						t.Errorf("a trade from the future is delivered: %+v", d.Ticks)
					}
				}
				k.Clock.Add(time.Hour)
				k.live(150, true, 1)
				k.expect(t, "afterwards", "first")
				holdsIt := func(b marketdata.Bar) bool { return b.OpenTime <= at && at < b.CloseTime }
				if !slices.ContainsFunc(k.since(before), func(d Delivery) bool {
					return d.Missed != 0 && d.Missed <= last && slices.ContainsFunc(d.Bars, holdsIt)
				}) {
					t.Errorf("nothing makes up for a trade at %d", at)
				}
			})
		})
	}
}

// A polled venue is not blamed for our clock.
func TestPolledSourceSurvivesAJumpOfTheClock(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.first.fail(fetch.ErrUnknown)
		k.first.sendKind(binance.Refused)
		time.Sleep(time.Minute)
		k.expect(t, "at first", "second")
		k.Clock.Add(-time.Hour)
		time.Sleep(10 * time.Minute)
		k.Clock.Add(time.Hour)
		failed, before := len(k.feed.rests), len(k.since(0))
		time.Sleep(2 * time.Minute)
		got := k.since(before)
		if failed != 1 || len(got) == 0 || len(got[0].Bars) < 10 {
			t.Errorf("%d sources were left; then came %+v", failed, got)
		}
	})
}

// If the prices of a source stay far from its history, the feed reads the history again when it
// returns to the source, although the gap is short and no other source was used meanwhile.
func TestHistoryIsReadAgainAfterWrongLevels(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.second.fail(fetch.ErrUnknown)
		k.live(10, true, 1)
		k.expect(t, "at first", "first")
		before := len(k.since(0))
		for range LevelFaults {
			tick := marketdata.Tick{Price: 1000, Volume: 1, Time: k.first.now().UnixMilli()}
			k.first.send(binance.Event{Kind: binance.Trade, Tick: tick})
			time.Sleep(time.Second)
		}
		time.Sleep(venueRest + 10*time.Second)
		isReset := func(d Delivery) bool { return d.Reset && len(d.Series) == prices.Timeframes }
		if got := k.since(before); !slices.ContainsFunc(got, isReset) {
			t.Errorf("the history is not read again: %+v", got)
		}
		k.live(10, true, 1)
		k.expect(t, "then", "first")
	})
}

// Streamed bars are checked like requested ones.
func TestStreamedBarsAreChecked(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		k.live(70, true, 1)
		minute := k.first.now().UnixMilli() / 60_000 * 60_000
		good := venueBar(minute-60_000, 60_000)
		bad := func(change func(b *marketdata.Bar)) marketdata.Bar {
			b := good
			b.Volume = 77
			change(&b)
			return b
		}
		at := func(open int64) func(b *marketdata.Bar) {
			return func(b *marketdata.Bar) { b.OpenTime, b.CloseTime = open, open+60_000 }
		}
		before := len(k.since(0))
		for _, b := range []marketdata.Bar{
			bad(func(b *marketdata.Bar) { b.High = math.NaN() }),
			bad(func(b *marketdata.Bar) { b.Low = -1 }),
			bad(func(b *marketdata.Bar) { b.High, b.Low = b.Low, b.High }),
			bad(func(b *marketdata.Bar) { b.Open, b.High, b.Low, b.Close = 1/b.Open, 1/b.Low, 1/b.High, 1/b.Close }),
			bad(at(minute + 60_000)),  // of the future
			bad(at(minute)),           // still open
			bad(at(minute - 600_000)), // long ago
			bad(func(b *marketdata.Bar) { b.CloseTime += 60_000 }),
			good, good, // once more
		} {
			k.first.send(binance.Event{Kind: binance.Closed, Bar: b})
		}
		time.Sleep(time.Second)
		n := 0
		for _, d := range k.since(before) {
			for _, b := range d.Bars {
				n++
				if b != good {
					t.Errorf("%+v is delivered", b)
				}
			}
		}
		if n == 0 {
			t.Error("a good bar is not delivered")
		}
		k.expect(t, "then", "first")
	})
}

// A source may be late with the end of a bar that has just closed.
func TestBarsThatMayBeIncompleteAreBuilt(t *testing.T) {
	withFeed(t, func(t *testing.T, k *btcFeed) {
		now := k.first.now().UnixMilli()
		want := []int64{now - now%60_000, now - now%300_000 - 300_000, now - now%3_600_000, now - now%86_400_000}
		for i, s := range k.since(0)[0].Series {
			if newest := s.Bars[len(s.Bars)-1].CloseTime; newest != want[i] {
				t.Errorf("%s: the newest bar closed at %d, want %d", s.Timeframe, newest, want[i])
			}
		}
	})
}
