package market

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNamesLeadToAssets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"BTC": "BTC", "btc": "BTC", "BTCUSDT": "BTC", "BTC-USD": "BTC", "btc/usd": "BTC", "BTCUSD": "BTC", "XBTUSD": "BTC",
		"ETH-USDT": "ETH", "SOL_USDC": "SOL", "EUR/USD": "EURUSD", "xau-usd": "XAUUSD", "Natural Gas": "natural_gas",
		"NATURAL_GAS": "natural_gas", "Oil": "oil", "aapl": "AAPL",
		"NOSUCH": "NOSUCH", "BTCEUR": "BTCEUR", "AAPLUSD": "AAPLUSD", "Ünïcode": "Ünïcode", "": "",
	} {
		if got := canonical(name); got != want {
			t.Errorf("canonical(%q) is %q, want %q", name, got, want)
		}
	}
	if got := assetKey("aßc Ж"); got != "AßC Ж" {
		t.Errorf("key is %q: only ASCII letters change", got)
	}
}

func TestPricesAreRoundedToTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ price, step, want float64 }{
		{67000.12345, .001, 67000.123}, {1.08512345678, 1e-7, 1.0851235}, {123456, 100, 123500}, {2.80000005, 1e-7, 2.8000001},
	} {
		if got := roundTo(c.price, c.step); got != c.want {
			t.Errorf("%v to %v is %v, want %v", c.price, c.step, got, c.want)
		}
	}
}

func TestBarsTileTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := grid{rapid.Int64Range(1, maxSpeed).Draw(t, "speed")}
		ms := rapid.Int64Range(earliestTime, 4*earliestTime).Draw(t, "ms")
		frame := rapid.IntRange(m1, d1).Draw(t, "frame")
		from, to := g.interval(frame, ms)
		if from > ms || ms >= to {
			t.Fatalf("%d is not in [%d, %d)", ms, from, to)
		}
		if !g.aligned(frame, from) || !g.aligned(frame, to) {
			t.Fatalf("[%d, %d) is not aligned", from, to)
		}
		if next, _ := g.interval(frame, to); next != to {
			t.Fatalf("the bar after [%d, %d) opens at %d", from, to, next)
		}
		if frame < d1 && (!g.aligned(m1, from) || g.index(frame+1, from) != g.index(frame+1, to-1)) {
			t.Fatalf("[%d, %d) lies across coarser bars", from, to)
		}
		if at := g.reached(ms, minuteStep); g.wall(at) > ms || g.wall(at+minuteStep) <= ms {
			t.Fatalf("the last point by %d is at %d", ms, g.wall(at))
		}
	})
}

func TestCompressedBarsAreMultiplesOfTheirLength(t *testing.T) {
	t.Parallel()
	g := grid{60}
	for frame, length := range map[int]int64{m1: 1_000, m5: 5_000, h1: 60_000, d1: 1_440_000} {
		from, to := g.interval(frame, 1_795_253_400_123)
		if from%length != 0 || to-from != length {
			t.Errorf("bar of %d ms is [%d, %d)", length, from, to)
		}
	}
}
