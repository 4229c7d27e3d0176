package strategy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

var (
	longLevels  = signal.Levels{Entry: 100, Stop: 98, Target: 103}
	shortLevels = signal.Levels{Entry: 100, Stop: 102, Target: 97}
)

func levelsOf(d signal.Direction) signal.Levels {
	if d == signal.Short {
		return shortLevels
	}
	return longLevels
}

func TestExitOnTick(t *testing.T) {
	for _, c := range []struct {
		name  string
		d     signal.Direction
		price float64
		want  Exit
	}{
		{"long between the levels", signal.Long, 102.99, Exit{}},
		{"long at the stop", signal.Long, 98, Exit{signal.StopLoss, 98}},
		{"long beyond the stop pays the gap", signal.Long, 95, Exit{signal.StopLoss, 95}},
		{"long at the target", signal.Long, 103, Exit{signal.TakeProfit, 103}},
		{"long beyond the target gets no windfall", signal.Long, 110, Exit{signal.TakeProfit, 103}},
		{"short between the levels", signal.Short, 97.01, Exit{}},
		{"short at the stop", signal.Short, 102, Exit{signal.StopLoss, 102}},
		{"short beyond the stop pays the gap", signal.Short, 105, Exit{signal.StopLoss, 105}},
		{"short at the target", signal.Short, 97, Exit{signal.TakeProfit, 97}},
		{"short beyond the target gets no windfall", signal.Short, 90, Exit{signal.TakeProfit, 97}},
	} {
		got, ok := ExitOnTick(c.d, levelsOf(c.d), c.price)
		if got != c.want || ok != (c.want != Exit{}) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, ok, c.want)
		}
	}
}

func TestExitOnBar(t *testing.T) {
	bar := func(open, high, low, closing float64) marketdata.Bar {
		return marketdata.Bar{Open: open, High: high, Low: low, Close: closing}
	}
	for _, c := range []struct {
		name string
		d    signal.Direction
		bar  marketdata.Bar
		want Exit
	}{
		{"long, neither level", signal.Long, bar(100, 102.9, 98.1, 101), Exit{}},
		{"long, opens beyond the stop", signal.Long, bar(96, 104, 95, 103), Exit{signal.StopLoss, 96}},
		{"long, opens at the stop", signal.Long, bar(98, 99, 98, 99), Exit{signal.StopLoss, 98}},
		{"long, opens beyond the target", signal.Long, bar(105, 106, 97, 98), Exit{signal.TakeProfit, 103}},
		{"long, touches the stop", signal.Long, bar(100, 101, 98, 99), Exit{signal.StopLoss, 98}},
		{"long, falls through the stop", signal.Long, bar(100, 101, 90, 91), Exit{signal.StopLoss, 98}},
		{"long, touches the target", signal.Long, bar(100, 103, 99, 102), Exit{signal.TakeProfit, 103}},
		{"long, both inside one bar", signal.Long, bar(100, 104, 97, 103.5), Exit{signal.StopLoss, 98}},
		{"short, neither level", signal.Short, bar(100, 101.9, 97.1, 99), Exit{}},
		{"short, opens beyond the stop", signal.Short, bar(104, 105, 96, 97), Exit{signal.StopLoss, 104}},
		{"short, opens beyond the target", signal.Short, bar(95, 103, 94, 102), Exit{signal.TakeProfit, 97}},
		{"short, touches the stop", signal.Short, bar(100, 102, 99, 101), Exit{signal.StopLoss, 102}},
		{"short, touches the target", signal.Short, bar(100, 101, 97, 98), Exit{signal.TakeProfit, 97}},
		{"short, both inside one bar", signal.Short, bar(100, 103, 96, 96.5), Exit{signal.StopLoss, 102}},
	} {
		got, ok := ExitOnBar(c.d, levelsOf(c.d), c.bar)
		if got != c.want || ok != (c.want != Exit{}) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, ok, c.want)
		}
	}
}

func TestClose(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	levels := longLevels
	s := &signal.Signal{Direction: signal.Long, Levels: &levels, CreatedAt: created}
	at := created.Add(4*time.Hour + 32*time.Minute + 59*time.Second)
	got := Close(s, Exit{signal.TakeProfit, 103}, at)
	price, percent, absolute := 103.0, 3.0, 3.0
	want := signal.Closing{Reason: signal.TakeProfit, At: at, ExitPrice: &price, PnLPercent: &percent,
		PnLAbsolute: &absolute, DurationMinutes: 272}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("close:\n%s", diff)
	}
	if got := DurationMinutes(created, created.Add(-time.Minute)); got != 0 {
		t.Errorf("duration backwards = %d, want 0", got)
	}
}

func TestPnL(t *testing.T) {
	for _, c := range []struct {
		d                 signal.Direction
		entry, exit       float64
		percent, absolute float64
	}{
		{signal.Long, 64250.125, 66275.125, 3.1517, 2025},
		{signal.Short, 64250.125, 66275.125, -3.1517, -2025},
		{signal.Short, 100, 97, 3, 3},
		{signal.Short, 100, 100, 0, 0},
		{signal.Long, 0.00001234, 0.00001299, 5.2674, 0.00000065},
	} {
		percent, absolute := PnL(c.d, c.entry, c.exit)
		if percent != c.percent || absolute != c.absolute || math.Signbit(percent) != math.Signbit(c.percent) {
			t.Errorf("%s %v to %v: %v %%, %v, want %v %%, %v", c.d, c.entry, c.exit, percent, absolute,
				c.percent, c.absolute)
		}
	}
}

func TestR(t *testing.T) {
	for _, d := range []signal.Direction{signal.Long, signal.Short} {
		l := levelsOf(d)
		for price, want := range map[float64]float64{l.Stop: -1, l.Target: 1.5, l.Entry: 0} {
			if got := R(d, l, price); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s at %v: %v R, want %v", d, price, got, want)
			}
		}
	}
	x := Excursion{}.Observe(signal.Short, shortLevels, 98, 101).Observe(signal.Short, shortLevels, 99, 99)
	if want := (Excursion{Best: 1, Worst: -0.5}); x != want {
		t.Errorf("excursion = %+v, want %+v", x, want)
	}
}

func TestRescore(t *testing.T) {
	const risk, horizon = signal.MediumRisk, 24
	for _, d := range []signal.Direction{signal.Long, signal.Short} {
		l := levelsOf(d)
		rescore := func(first, left, price float64) float64 {
			return Rescore(first, l, signal.H1, risk, left/horizon, price)
		}
		if got := rescore(0.4372, horizon, l.Entry); got != 0.4372 {
			t.Errorf("%s at the entry: %v, want it unchanged", d, got)
		}
		above, below := l.Entry+0.2*(l.Target-l.Entry), l.Entry-0.2*(l.Target-l.Entry)
		if early, late := rescore(0.4, 20, above), rescore(0.4, 0.2, above); !(0.4 < early && early < late) {
			t.Errorf("%s with a profit: %v early, %v late", d, early, late)
		}
		if early, late := rescore(0.4, 20, below), rescore(0.4, 0.2, below); !(0.4 > early && early > late) {
			t.Errorf("%s with a loss: %v early, %v late", d, early, late)
		}
		if got := rescore(0.4, 0, above); got < 0.97 {
			t.Errorf("%s with a profit at the end: %v", d, got)
		}
		if got := rescore(0.99, 5, l.Target); got != 0.99 {
			t.Errorf("%s: %v, want it clamped to 0.99", d, got)
		}
		if got := rescore(0.01, 5, l.Stop); got != 0.01 {
			t.Errorf("%s: %v, want it clamped to 0.01", d, got)
		}
	}
	if Moved(0.40, 0.4199) || !Moved(0.40, 0.42) || !Moved(0.4372, 0.4172) {
		t.Error("a change of 0.02 must be published, a smaller one must not")
	}
}

// TestProfitChance compares the series of sines with random walks.
func TestProfitChance(t *testing.T) {
	const walks, steps = 20_000, 100 // steps of a bar
	l := longLevels
	reach := Reach{Stop: StopMultiple(signal.MediumRisk)}
	deviation := (l.Entry - l.Stop) / reach.Stop / deviationsPerATR
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ place, bars float64 }{{0.4, 1}, {0.4, 10}, {0.6, 5}, {0.15, 12}, {0.45, 0.2}} {
		won := 0.0
		for range walks {
			x := l.Stop + c.place*(l.Target-l.Stop)
			for range int(c.bars * steps) {
				if x += deviation / math.Sqrt(steps) * r.NormFloat64(); x <= l.Stop || x >= l.Target {
					break
				}
			}
			if x > l.Entry {
				won++
			}
		}
		price := l.Stop + c.place*(l.Target-l.Stop)
		got := reach.profitChance(l, c.bars, price)
		if want := won / walks; math.Abs(got-want) > 0.015 {
			t.Errorf("from %v in %v bars: %.4f, of random walks %.4f", c.place, c.bars, got, want)
		}
	}
	for _, c := range []struct{ bars, place, want float64 }{{0, 0.41, 0.98}, {0, 0.39, 0.02}, {1e6, 0.7, 0.7}} {
		price := l.Stop + c.place*(l.Target-l.Stop)
		if got := reach.profitChance(l, c.bars, price); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("from %v in %v bars: %v, want %v", c.place, c.bars, got, c.want)
		}
	}
}

// TestMirroredBars checks that exits treat both directions alike: the mirror
// image of a bar ends the mirror image of a signal in the same way.
func TestMirroredBars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Float64Range(90, 110)
		b := marketdata.Bar{Open: price.Draw(t, "open"), Close: price.Draw(t, "close")}
		b.High = max(b.Open, b.Close) + rapid.Float64Range(0, 5).Draw(t, "above")
		b.Low = min(b.Open, b.Close) - rapid.Float64Range(0, 5).Draw(t, "below")
		mirrored := marketdata.Bar{Open: 200 - b.Open, High: 200 - b.Low, Low: 200 - b.High, Close: 200 - b.Close}
		long, okLong := ExitOnBar(signal.Long, longLevels, b)
		short, okShort := ExitOnBar(signal.Short, shortLevels, mirrored)
		if okLong != okShort || long.Reason != short.Reason || okLong && math.Abs(200-long.Price-short.Price) > 1e-9 {
			t.Fatalf("long %+v %v, short %+v %v", long, okLong, short, okShort)
		}
	})
}

func TestCloseShowsPricesInTicks(t *testing.T) {
	type levels = signal.Levels
	usual := levels{Entry: 97.86426, Stop: 97.34346, Target: 98.64546}
	for _, c := range []struct {
		name             string
		levels           levels
		price            float64
		want, wantAmount float64
	}{
		{"a price of more digits", usual, 96.30185669999999, 96.301857, -1.562403},
		{"a level stays exact", usual, 98.64546, 98.64546, .7812},
		{"a price between the levels stays there", usual, 97.34346034, 97.3434603, -.5207997},
		{"levels of a finer tick", levels{Entry: 100.123456, Stop: 99.123457, Target: 101.623455},
			99.1234568, 99.123457, -.999999},
		{"no more than 8 decimals", levels{Entry: .0123, Stop: .0122, Target: .01245},
			.012112345678, .01211235, -.00018765},
		{"a high price", levels{Entry: 123456789, Stop: 123000000, Target: 124141973},
			122999998.76, 122999999, -456790},
	} {
		s := &signal.Signal{Direction: signal.Long, Levels: &c.levels}
		got := Close(s, Exit{signal.StopLoss, c.price}, time.Time{})
		if *got.ExitPrice != c.want || *got.PnLAbsolute != c.wantAmount {
			t.Errorf("%s: exit at %v with %v, want %v with %v", c.name, *got.ExitPrice, *got.PnLAbsolute,
				c.want, c.wantAmount)
		}
	}
}
