package feeder

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// day is midnight of a day.
const day = 20_778 * 86_400_000

// book collects the output of a builder as the records would.
type book struct {
	bars map[signal.Timeframe]map[int64]marketdata.AssetBar
	puts int
}

func newBook() *book { return &book{bars: make(map[signal.Timeframe]map[int64]marketdata.AssetBar)} }

func (b *book) put(bar marketdata.AssetBar) {
	if b.bars[bar.Timeframe] == nil {
		b.bars[bar.Timeframe] = make(map[int64]marketdata.AssetBar)
	}
	b.bars[bar.Timeframe][bar.OpenTime] = bar
	b.puts++
}

func newTestBuilder() (*builder, *book) {
	book := newBook()
	return &builder{asset: "BTC", grid: prices.Grid{Speed: 1}, out: book.put}, book
}

// bar returns a bar that opens the given number of minutes after midnight.
func bar(tf signal.Timeframe, minute int64, open, high, low, closing, volume float64) marketdata.AssetBar {
	from := day + minute*60_000
	return marketdata.AssetBar{Asset: "BTC", Timeframe: tf, Bar: marketdata.Bar{
		OpenTime: from, CloseTime: from + tf.Duration().Milliseconds(),
		Open: open, High: high, Low: low, Close: closing, Volume: volume,
	}}
}

func given(b marketdata.AssetBar) marketdata.AssetBar {
	b.Given = true
	return b
}

func TestTicksMakeBars(t *testing.T) {
	t.Parallel()
	b, book := newTestBuilder()
	for _, x := range []marketdata.Tick{
		{Price: 10, Volume: 1, Time: day}, {Price: 12, Volume: 1, Time: day + 30_000},
		{Price: 9, Volume: 2, Time: day + 59_999},
		{Price: 11, Volume: 5, Time: day + 60_000}, // the next minute
		{Price: 8, Volume: 1, Time: day + 6*60_000},
	} {
		if !b.tick(x) {
			t.Errorf("tick %+v is late", x)
		}
	}
	want := newBook()
	want.put(bar(signal.M1, 0, 10, 12, 9, 9, 4))
	want.put(bar(signal.M1, 1, 11, 11, 11, 11, 5))
	want.put(bar(signal.M5, 0, 10, 12, 9, 11, 9))
	if d := cmp.Diff(want.bars, book.bars); d != "" {
		t.Errorf("after the ticks (-want +got):\n%s", d)
	}
	b.advance(day + 60*60_000)
	want.put(bar(signal.M1, 6, 8, 8, 8, 8, 1))
	want.put(bar(signal.M5, 5, 8, 8, 8, 8, 1))
	want.put(bar(signal.H1, 0, 10, 12, 8, 8, 10))
	if d := cmp.Diff(want.bars, book.bars); d != "" {
		t.Errorf("after an hour (-want +got):\n%s", d)
	}
	if b.tick(marketdata.Tick{Price: 1, Time: day + 6*60_000 + 1}) {
		t.Error("a tick of a closed minute was accepted")
	}
}

func TestGivenBarsWin(t *testing.T) {
	t.Parallel()
	minutes := func(b *builder) {
		for i := range int64(60) {
			b.tick(marketdata.Tick{Price: 10, Volume: 1, Time: day + i*60_000})
		}
	}
	hour := given(bar(signal.H1, 0, 50, 60, 40, 55, 7))
	five := given(bar(signal.M5, 0, 20, 30, 5, 25, 9))
	minute := given(bar(signal.M1, 0, 10, 99, 10, 10, 1))
	type firsts = map[signal.Timeframe]marketdata.AssetBar
	for _, c := range []struct {
		name  string
		drive func(b *builder)
		want  firsts // of the first interval
	}{
		{"an hour before it was built", func(b *builder) { minutes(b); b.give(hour); b.advance(day + 3_600_000) },
			firsts{signal.H1: hour, signal.M5: bar(signal.M5, 0, 10, 10, 10, 10, 5)}},
		{"an hour after it was built", func(b *builder) { minutes(b); b.advance(day + 3_600_000); b.give(hour) },
			firsts{signal.H1: hour}},
		{"a minute before it was built", func(b *builder) {
			b.tick(marketdata.Tick{Price: 10, Volume: 1, Time: day})
			b.give(minute)
			b.tick(marketdata.Tick{Price: 77, Volume: 1, Time: day + 59_000}) // in the given bar already
			b.advance(day + 3_600_000)
		}, firsts{signal.M1: minute, signal.M5: bar(signal.M5, 0, 10, 99, 10, 10, 1)}},
		{"a minute after it was built changes coarser bars", func(b *builder) {
			minutes(b)
			b.advance(day + 3_600_000)
			b.give(minute)
		},
			firsts{signal.M1: minute, signal.M5: bar(signal.M5, 0, 10, 99, 10, 10, 5),
				signal.H1: bar(signal.H1, 0, 10, 99, 10, 10, 60)}},
		{"five minutes that are given do not follow a minute", func(b *builder) {
			minutes(b)
			b.give(five)
			b.give(minute)
			b.advance(day + 3_600_000)
		}, firsts{signal.M1: minute, signal.M5: five, signal.H1: bar(signal.H1, 0, 20, 30, 5, 10, 64)}},
		{"a copy replaces the former", func(b *builder) {
			b.give(hour)
			b.give(given(bar(signal.H1, 0, 51, 61, 41, 56, 8)))
		}, firsts{signal.H1: given(bar(signal.H1, 0, 51, 61, 41, 56, 8))}},
		{"days come of given hours", func(b *builder) {
			for i := range int64(24) {
				b.give(given(bar(signal.H1, i*60, 10, 20+float64(i), 9, 11, 1)))
			}
			b.advance(day + 86_400_000)
		}, firsts{signal.D1: bar(signal.D1, 0, 10, 43, 9, 11, 24)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, book := newTestBuilder()
			c.drive(b)
			for tf, want := range c.want {
				if d := cmp.Diff(want, book.bars[tf][day]); d != "" {
					t.Errorf("%s (-want +got):\n%s", tf, d)
				}
			}
		})
	}
}

func TestUnchangedBarIsNotPutAgain(t *testing.T) {
	t.Parallel()
	b, book := newTestBuilder()
	x := given(bar(signal.M5, 0, 1, 2, 1, 2, 3))
	b.give(x)
	b.give(x)
	if book.puts != 1 {
		t.Errorf("put out %d times", book.puts)
	}
}

// randomTicks draws ticks of about a day, with pauses.
func randomTicks(t *rapid.T) []marketdata.Tick {
	now := int64(day)
	var ticks []marketdata.Tick
	for range rapid.IntRange(1, 400).Draw(t, "ticks") {
		short, long := rapid.Int64Range(0, 30_000), rapid.Int64Range(0, 3_000_000)
		now += rapid.OneOf(short, short, long).Draw(t, "pause")
		price := float64(rapid.IntRange(1, 1000).Draw(t, "price"))
		ticks = append(ticks, marketdata.Tick{Price: price, Volume: 1, Time: now})
	}
	return ticks
}

// straight builds the bars of one timeframe from ticks in the obvious way.
func straight(ticks []marketdata.Tick, tf signal.Timeframe, until int64) map[int64]marketdata.AssetBar {
	bars := make(map[int64]marketdata.AssetBar)
	length := tf.Duration().Milliseconds()
	for _, x := range ticks {
		open := x.Time - x.Time%length
		b, ok := bars[open]
		if !ok {
			b = marketdata.AssetBar{Asset: "BTC", Timeframe: tf, Bar: markettest.FlatBar(open, length, x.Price)}
		}
		b.High, b.Low, b.Close = max(b.High, x.Price), min(b.Low, x.Price), x.Price
		b.Volume += x.Volume
		bars[open] = b
	}
	maps.DeleteFunc(bars, func(_ int64, b marketdata.AssetBar) bool { return b.CloseTime > until })
	return bars
}

func TestAllTimeframesAgreeWithTheTicks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ticks := randomTicks(t)
		// A feeder may stop anywhere, and the next one has the open minute and the records.
		stop := rapid.IntRange(0, len(ticks)).Draw(t, "stop")
		b, book := newTestBuilder()
		for _, x := range ticks[:stop] {
			b.tick(x)
		}
		next := &builder{asset: "BTC", grid: prices.Grid{Speed: 1}, out: book.put}
		next.restore(b.minute, b.recent)
		for _, x := range ticks[stop:] {
			next.tick(x)
		}
		until := ticks[len(ticks)-1].Time + rapid.Int64Range(0, 90_000_000).Draw(t, "rest")
		next.advance(until)
		for _, tf := range signal.Timeframes {
			want := straight(ticks, tf, until)
			if len(want) == 0 {
				want = nil
			}
			if d := cmp.Diff(want, book.bars[tf]); d != "" {
				t.Fatalf("%s (-want +got):\n%s", tf, d)
			}
		}
	})
}

// Minutes come in any order. With the bars that a rebuild adds, coarser bars include all of them.
func TestLateMinutesReachCoarserBars(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 700).Draw(t, "minutes")
		order := rapid.Permutation(indices(n)).Draw(t, "order")
		b, book := newTestBuilder()
		var ticks []marketdata.Tick
		for i := range n {
			ticks = append(ticks, marketdata.Tick{Price: float64(10 + i*7%31), Volume: 1, Time: day + int64(i)*60_000})
		}
		for _, i := range order {
			p := ticks[i].Price
			b.give(given(bar(signal.M1, int64(i), p, p, p, p, 1)))
		}
		until := int64(day + n*60_000)
		b.advance(until)
		if b.rebuild != 0 {
			series := book.series()
			for _, x := range rebuilt(b.grid, &series, b.rebuild, until) {
				book.put(x)
			}
		}
		for _, tf := range []signal.Timeframe{signal.M5, signal.H1} {
			want := straight(ticks, tf, until)
			for open := range want {
				if d := cmp.Diff(want[open], book.bars[tf][open]); d != "" {
					t.Fatalf("%s of %d minutes (-want +got):\n%s", tf, n, d)
				}
			}
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func (b *book) series() (all [prices.Timeframes][]marketdata.AssetBar) {
	for frame, tf := range signal.Timeframes {
		for at := int64(day); at < day+2*86_400_000; at += prices.FrameMS[prices.M1] {
			if x, ok := b.bars[tf][at]; ok {
				all[frame] = append(all[frame], x)
			}
		}
	}
	return all
}

// A feeder that was killed between two writes left bars of 1m without their bar of 5m, and a closed
// minute recorded as open.
func TestRestoredBuilderCompletesBars(t *testing.T) {
	t.Parallel()
	b, book := newTestBuilder()
	var recent [prices.Timeframes][]marketdata.AssetBar
	for minute := range int64(5) {
		recent[prices.M1] = append(recent[prices.M1], bar(signal.M1, minute, 10, 12, 9, 11, 1))
	}
	b.restore(bar(signal.M1, 4, 10, 10, 10, 10, 1).Bar, recent)
	b.advance(day + 5*60_000)
	want := newBook()
	want.put(bar(signal.M5, 0, 10, 12, 9, 11, 5))
	if d := cmp.Diff(want.bars, book.bars); d != "" {
		t.Errorf("bars (-want +got):\n%s", d)
	}
}

// simulatedBegin is when the market begins, within a bar of every timeframe.
const simulatedBegin = 1_795_253_417_345

func TestTicksAndBarsAgree(t *testing.T) {
	t.Parallel()
	s := simulated.New(60, 1, specsOf("SOL"))
	s.Open(t.Context(), nil, 0, simulatedBegin)
	o := s.Advance(simulatedBegin + 30_000)
	b, book := newTestBuilder()
	b.asset, b.grid = "SOL", prices.Grid{Speed: 60}
	for _, x := range o.Ticks {
		b.tick(x.Tick)
	}
	if n := len(o.Ticks); n < 299 || n > 301 {
		t.Errorf("%d ticks in 30 s", n)
	}
	compared := 0
	for _, want := range o.Closed {
		if want.OpenTime < simulatedBegin {
			continue
		}
		compared++
		got := book.bars[want.Timeframe][want.OpenTime]
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-market +ticks):\n%s", want.Timeframe, d)
		}
	}
	if compared < 28 {
		t.Errorf("only %d bars compared", compared)
	}
}
