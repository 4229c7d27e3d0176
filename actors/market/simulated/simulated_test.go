package simulated

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// begin is when the markets of these tests begin, within a bar of every timeframe.
const begin = 1_795_253_417_345

func someAssets(symbols ...string) []*assets.Spec {
	var list []*assets.Spec
	for _, s := range symbols {
		list = append(list, assets.Find(s))
	}
	return list
}

// shelf holds the output of a market as the records would.
type shelf struct {
	bars  map[string][]marketdata.AssetBar // by asset and timeframe
	ticks []marketdata.AssetTick
	news  []marketdata.NewsItem
}

func newShelf() *shelf { return &shelf{bars: make(map[string][]marketdata.AssetBar)} }

func opened(tb testing.TB, speed int64, seed uint64, symbols ...string) *Market {
	s := New(speed, seed, someAssets(symbols...))
	s.Open(tb.Context(), nil, 0, begin)
	return s
}

func (s *shelf) take(o Output) {
	s.ticks = append(s.ticks, o.Ticks...)
	s.news = append(s.news, o.News...)
	for _, f := range o.Fill {
		key := f.Asset + string(f.Timeframe)
		if f.Reset {
			s.bars[key] = nil
		}
		s.bars[key] = append(s.bars[key], f.Bars...)
	}
	for _, b := range o.Closed {
		key := b.Asset + string(b.Timeframe)
		s.bars[key] = append(s.bars[key], b)
	}
}

func TestHistoryIsComplete(t *testing.T) {
	t.Parallel()
	s := New(60, 1, someAssets("BTC", "natural_gas", "EURUSD"))
	shelf := newShelf()
	shelf.take(s.Open(t.Context(), nil, 0, begin))
	for _, k := range s.known {
		for frame, tf := range signal.Timeframes {
			bars := shelf.bars[k.Symbol+string(tf)]
			if len(bars) < HistoryBars-1 || len(bars) > HistoryBars+10 {
				t.Errorf("%s has %d bars of %s", k.Symbol, len(bars), tf)
			}
			for i, b := range bars {
				if err := strategy.CheckBar(b.Bar); err != nil {
					t.Fatalf("%s %s: %v", k.Symbol, tf, err)
				}
				if !s.grid.Aligned(frame, b.OpenTime) || i > 0 && bars[i-1].CloseTime != b.OpenTime {
					t.Fatalf("%s %s: bar %d at %d does not follow the one before", k.Symbol, tf, i, b.OpenTime)
				}
				if roundTo(b.Close, strategy.TickSize(k.Price)) != b.Close || b.Volume <= 0 {
					t.Fatalf("%s %s: close %v, volume %v", k.Symbol, tf, b.Close, b.Volume)
				}
			}
			if last := bars[len(bars)-1]; last.CloseTime > begin || last.CloseTime <= begin-prices.FrameMS[frame]/60 {
				t.Errorf("%s %s ends at %d", k.Symbol, tf, last.CloseTime)
			}
		}
	}
	if len(shelf.ticks) > 0 {
		t.Errorf("%d ticks are older than the market", len(shelf.ticks))
	}
}

func TestTimeframesAgree(t *testing.T) {
	t.Parallel()
	s := New(60, 1, someAssets("ETH"))
	shelf := newShelf()
	shelf.take(s.Open(t.Context(), nil, 0, begin))
	for ms := int64(begin); ms < begin+1_500_000; ms += 37_000 {
		shelf.take(s.Advance(ms))
	}
	for frame := prices.M5; frame < prices.Timeframes; frame++ {
		finer := shelf.bars["ETH"+string(signal.Timeframes[frame-1])]
		compared := 0
		for _, b := range shelf.bars["ETH"+string(signal.Timeframes[frame])] {
			if b.OpenTime < finer[0].OpenTime {
				continue
			}
			want, ok := prices.Combine(finer, b.OpenTime, b.CloseTime)
			if !ok {
				t.Fatalf("no finer bars for %s at %d", b.Timeframe, b.OpenTime)
			}
			want.Asset, want.Timeframe = b.Asset, b.Timeframe
			if d := gocmp.Diff(want, b); d != "" {
				t.Fatalf("%s (-finer +coarse):\n%s", b.Timeframe, d)
			}
			compared++
		}
		if least := []int{0, 190, 80, 40}[frame]; compared < least {
			t.Errorf("%s: only %d bars compared", signal.Timeframes[frame], compared)
		}
	}
}

// TestPathDoesNotDependOnTheCalls advances one market in one call and another in pieces, with
// restarts from checkpoints.
func TestPathDoesNotDependOnTheCalls(t *testing.T) {
	t.Parallel()
	known := someAssets("BTC", "ETH")
	starts := make(map[int64][]byte)
	speeds := []int64{1, 7, 60, 600, 3600}
	for _, speed := range speeds {
		starts[speed] = opened(t, speed, uint64(speed), "BTC", "ETH").Checkpoint()
	}
	rapid.Check(t, func(t *rapid.T) {
		speed := rapid.SampledFrom(speeds).Draw(t, "speed")
		start := starts[speed]
		end := begin + rapid.Int64Range(1, 120*60_000/speed).Draw(t, "for")

		whole, pieces := newShelf(), newShelf()
		one, other := New(speed, 0, known), New(speed, 0, known)
		one.Open(t.Context(), start, begin, begin)
		other.Open(t.Context(), start, begin, begin)
		whole.take(one.Advance(end))
		for now := int64(begin); now < end; {
			next := min(end, now+rapid.Int64Range(1, max(2, (end-begin)/4)).Draw(t, "step"))
			if rapid.Bool().Draw(t, "restart") {
				checkpoint := other.Checkpoint()
				other = New(speed, 0, known)
				o := other.Open(t.Context(), checkpoint, now, next)
				for _, f := range o.Fill {
					if f.Reset {
						t.Fatalf("%s %s was reset", f.Asset, f.Timeframe)
					}
				}
				pieces.take(o)
			} else {
				pieces.take(other.Advance(next))
			}
			now = next
		}
		if d := gocmp.Diff(one.Checkpoint(), other.Checkpoint()); d != "" {
			t.Fatal("the paths differ")
		}
		if d := gocmp.Diff(whole.bars, pieces.bars); d != "" {
			t.Fatalf("bars (-whole +pieces):\n%s", d)
		}
		if d := gocmp.Diff(whole.news, pieces.news); d != "" {
			t.Fatalf("news (-whole +pieces):\n%s", d)
		}
		// A long piece has ticks at its end only.
		ticks := make(map[marketdata.AssetTick]bool)
		for _, x := range pieces.ticks {
			x.Missed = 0
			ticks[x] = true
		}
		for _, x := range whole.ticks {
			if !ticks[x] && x.Time > end-TickWindow {
				t.Fatalf("tick %+v is missing in the pieces", x)
			}
		}
	})
}

// TestPathIsPinned fails when a change makes the path of an installation jump.
func TestPathIsPinned(t *testing.T) {
	t.Parallel()
	o := opened(t, 60, 1, "BTC", "AAPL").Advance(begin + 200)
	want := []marketdata.AssetTick{
		{Asset: "BTC", Source: Name, Tick: marketdata.Tick{Price: 73831.274, Volume: 2.7164728, Time: 1795253417400}},
		{Asset: "AAPL", Source: Name, Tick: marketdata.Tick{Price: 205.78496, Volume: 4918.5355, Time: 1795253417400}},
		{Asset: "BTC", Source: Name, Tick: marketdata.Tick{Price: 73840.072, Volume: 1.278155, Time: 1795253417500}},
		{Asset: "AAPL", Source: Name, Tick: marketdata.Tick{Price: 205.80481, Volume: 1696.2104, Time: 1795253417500}},
	}
	if d := gocmp.Diff(want, o.Ticks); d != "" {
		t.Errorf("ticks (-want +got):\n%s", d)
	}
}

func TestSeedsAndAssetsHaveTheirOwnPaths(t *testing.T) {
	t.Parallel()
	last := make(map[float64]bool)
	for seed := range uint64(3) {
		s := New(60, seed+1, someAssets("BTC", "ETH", "SOL"))
		for _, l := range s.Open(t.Context(), nil, 0, begin).Live {
			last[l.Last.Price] = true
		}
	}
	if len(last) != 9 {
		t.Errorf("nine paths end at %d prices", len(last))
	}
}

func TestLongGapsAreFilledCoarsely(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		gap   int64 // wall ms at 60 times real time
		reset [prices.Timeframes]bool
	}{
		{"ten minutes", 600_000, [prices.Timeframes]bool{}},
		{"an hour", 3_600_000, [prices.Timeframes]bool{prices.M1: true}},
		{"ten hours", 36_000_000, [prices.Timeframes]bool{prices.M1: true, prices.M5: true}},
		{"three days", 3 * 86_400_000, [prices.Timeframes]bool{prices.M1: true, prices.M5: true, prices.H1: true}},
		{"a year", 365 * 86_400_000, [prices.Timeframes]bool{true, true, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			first := New(60, 1, someAssets("BTC"))
			shelf := newShelf()
			shelf.take(first.Open(t.Context(), nil, 0, begin))
			second := New(60, 1, someAssets("BTC"))
			o := second.Open(t.Context(), first.Checkpoint(), begin, begin+c.gap)
			shelf.take(o)
			var reset [prices.Timeframes]bool
			for _, f := range o.Fill {
				frame, _ := prices.FrameOf(f.Timeframe)
				reset[frame] = reset[frame] || f.Reset
			}
			if reset != c.reset {
				t.Errorf("reset %v, want %v", reset, c.reset)
			}
			for frame, tf := range signal.Timeframes {
				bars := shelf.bars["BTC"+string(tf)]
				if len(bars) < HistoryBars-1 {
					t.Errorf("%d bars of %s", len(bars), tf)
				}
				for i := 1; i < len(bars); i++ {
					if bars[i].OpenTime != bars[i-1].CloseTime {
						t.Fatalf("%s has a gap at %d", tf, bars[i].OpenTime)
					}
				}
				if end := bars[len(bars)-1].CloseTime; end <= begin+c.gap-prices.FrameMS[frame]/60 {
					t.Errorf("%s ends at %d", tf, end)
				}
			}
			if jump := math.Abs(math.Log(second.assets[0].last.Price / first.assets[0].last.Price)); jump > 2 {
				t.Errorf("the price moved by %.1f", jump)
			}
		})
	}
}

// After a stop that is longer than TickWindow the first tick of an asset carries the time since
// which ticks are missing.
func TestFirstTickCarriesMissed(t *testing.T) {
	t.Parallel()
	for gap, want := range map[int64]int64{TickWindow - 100: 0, TickWindow + 100: begin, 10 * TickWindow: begin} {
		s := opened(t, 60, 1, "BTC", "ETH")
		count := map[string]int{}
		for _, tick := range New(60, 1, s.known).Open(t.Context(), s.Checkpoint(), begin, begin+gap).Ticks {
			n := count[tick.Asset]
			if n == 0 && tick.Missed != want || n > 0 && tick.Missed != 0 {
				t.Fatalf("after %d ms, tick %d of %s has %d, want %d first", gap, n, tick.Asset, tick.Missed, want)
			}
			count[tick.Asset]++
		}
		if len(count) != 2 {
			t.Errorf("after %d ms there are ticks of %v", gap, count)
		}
	}
}

func TestTicksComeAtMostTenTimesASecond(t *testing.T) {
	t.Parallel()
	for speed, want := range map[int64]int{1: 10, 10: 100, 60: 600, 120: 600, 600: 600, 3600: 600} {
		ticks := opened(t, speed, 1, "BTC").Advance(begin + 60_000).Ticks
		if n := len(ticks); n < want-1 || n > want+1 {
			t.Errorf("%d ticks in a minute at speed %d, want %d", n, speed, want)
		}
		for i := 1; i < len(ticks); i++ {
			if ticks[i].Time-ticks[i-1].Time < 99 {
				t.Fatalf("ticks %d ms apart at speed %d", ticks[i].Time-ticks[i-1].Time, speed)
			}
		}
	}
}

// A market that is ahead of the clock, which went back, waits: it goes on where it was, and its output from then on is
// that of a market whose clock was right, once.
func TestMarketWaitsForAClockThatWentBack(t *testing.T) {
	t.Parallel()
	const speed, left, back = 600, begin + 20_000, begin - 280_000
	known := someAssets("BTC", "XAUUSD")
	right := opened(t, speed, 3, "BTC", "XAUUSD")
	right.Advance(left - 7_000)
	checkpoint := right.Checkpoint() // older than what was written
	right.Advance(left)
	published := right.assets[0].last.Time
	want := right.Advance(left + 30_000)

	s := New(speed, 1, known)
	if o := s.Open(t.Context(), checkpoint, published, back); o.Begun || len(o.Fill)+len(o.Ticks) > 0 {
		t.Fatalf("the market has not waited: begun %v, %d series, %d ticks", o.Begun, len(o.Fill), len(o.Ticks))
	}
	if o := s.Advance(back + 10_000); len(o.Ticks)+len(o.Closed) > 0 {
		t.Errorf("%d ticks and %d bars while the clock is back", len(o.Ticks), len(o.Closed))
	}
	var got Output
	for now := int64(left - 8_000); now <= left+30_000; now += 500 {
		o := s.Advance(now)
		got.Ticks, got.Closed = append(got.Ticks, o.Ticks...), append(got.Closed, o.Closed...)
	}
	if diff := gocmp.Diff(want.Ticks, got.Ticks); diff != "" {
		t.Errorf("ticks after the clock is right (-want +got):\n%.2000s", diff)
	}
	if diff := gocmp.Diff(want.Closed, got.Closed); diff != "" {
		t.Errorf("bars after the clock is right (-want +got):\n%.2000s", diff)
	}
}

func TestInvalidCheckpointsAreRefused(t *testing.T) {
	t.Parallel()
	known := someAssets("BTC", "ETH")
	good := opened(t, 60, 5, "BTC", "ETH").Checkpoint()
	if !New(60, 1, known).restore(good) {
		t.Fatal("a good checkpoint was refused")
	}
	for name, c := range map[string][]byte{
		"none": nil, "empty": {}, "cut short": good[:len(good)-1], "with a rest": append(slices.Clone(good), 0),
		"another version": append([]byte{99}, good[1:]...),
	} {
		if New(60, 1, known).restore(c) {
			t.Errorf("%s: taken", name)
		}
	}
	if New(30, 1, known).restore(good) || New(60, 1, known[:1]).restore(good) {
		t.Error("a checkpoint of another market was taken")
	}
	if o := New(60, 1, known).Open(t.Context(), good, begin, begin-3_600_000); len(o.Fill) == 0 || !o.Fill[0].Reset {
		t.Error("a market that is an hour ahead did not begin again")
	}
	restored := New(60, 1, known)
	if restored.restore(good); restored.seed != 5 || restored.start != begin {
		t.Errorf("seed %d, start %d", restored.seed, restored.start)
	}
}

func FuzzRestore(f *testing.F) {
	known := someAssets("BTC")
	good := opened(f, 60, 1, "BTC").Checkpoint()
	f.Add(good)
	f.Add(good[:50])
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(60, 1, known)
		if s.restore(data) && gocmp.Diff(data, s.Checkpoint()) != "" {
			t.Error("the checkpoint of a restored market differs")
		}
	})
}

func TestNewsFollowTheRegime(t *testing.T) {
	t.Parallel()
	k := assets.Find("BTC")
	good := func(regime int) float64 {
		w := newNewswire(1, k, 0)
		var positive, n float64
		for at := int64(0); n < 1000; at += newsEvery {
			for _, item := range w.until(at, regime, prices.Grid{Speed: 60}) {
				n++
				if strategy.TextScore(item.Headline) > 0 {
					positive++
				}
			}
		}
		return positive / n
	}
	for regime, want := range []float64{
		regimeCalm: .5, regimeRising: newsTruth, regimeFalling: 1 - newsTruth, regimeTurbulent: .5,
	} {
		if got := good(regime); math.Abs(got-want) > .05 {
			t.Errorf("share of good news in regime %d is %.2f, want %.2f", regime, got, want)
		}
	}
}

func TestEveryHeadlineHasItsSign(t *testing.T) {
	t.Parallel()
	for _, k := range assets.Known {
		w := newNewswire(1, &k, 0)
		seen := make(map[string]int)
		for range 50 {
			for _, good := range []bool{true, false} {
				headline, body := w.text(rand.New(w.own), good)
				seen[headline]++
				if score := strategy.TextScore(headline); (score > 0) != good || score == 0 {
					t.Fatalf("%q scores %.2f, good %v", headline, score, good)
				}
				if body == "" || len(headline) > 140 {
					t.Fatalf("%q: %q", headline, body)
				}
			}
		}
		if len(seen) < 70 {
			t.Errorf("%s: only %d of 100 headlines differ", k.Symbol, len(seen))
		}
	}
}

func TestMarketBeginsWithNewsOfAWeek(t *testing.T) {
	t.Parallel()
	s := New(60, 1, someAssets("BTC"))
	news := s.Open(t.Context(), nil, 0, begin).News
	if n := float64(len(news)); math.Abs(n-504) > 5*math.Sqrt(504) {
		t.Errorf("%v items in 7 days, want about 504", n)
	}
	if !slices.IsSortedFunc(news, func(a, b marketdata.NewsItem) int { return cmp.Compare(a.At, b.At) }) {
		t.Error("news are not in order")
	}
	if first := news[0].At; first < begin-NewsFor/60-1 || news[len(news)-1].At > begin {
		t.Errorf("news from %d to %d", first, news[len(news)-1].At)
	}
}

func BenchmarkHistory(b *testing.B) {
	for b.Loop() {
		var all []*assets.Spec
		for i := range assets.Known {
			all = append(all, &assets.Known[i])
		}
		New(60, 1, all).Open(context.Background(), nil, 0, begin)
	}
}
