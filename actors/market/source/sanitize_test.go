package source

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func minuteBar(minute int64, price float64) marketdata.Bar {
	b := markettest.FlatBar((29_920_890+minute)*60_000, 60_000, price)
	b.High, b.Low, b.Volume = price+1, price-1, 1
	return b
}

func TestSanitize(t *testing.T) {
	t.Parallel()
	good := func(minutes ...int64) []marketdata.Bar {
		var bars []marketdata.Bar
		for _, m := range minutes {
			bars = append(bars, minuteBar(m, 100))
		}
		return bars
	}
	// goodAnd returns a good bar and one that is changed.
	goodAnd := func(change func(b *marketdata.Bar)) []marketdata.Bar {
		bars := good(1, 2)
		change(&bars[1])
		return bars
	}
	now := minuteBar(9, 1).OpenTime
	for name, c := range map[string]struct {
		bars []marketdata.Bar
		want []marketdata.Bar
	}{
		"all":          {good(1, 2, 3), good(1, 2, 3)},
		"open still":   {good(7, 8, 9), good(7, 8)},
		"twice":        {append(good(1, 2), minuteBar(2, 101)), append(good(1), minuteBar(2, 101))},
		"out of order": {good(1, 3, 2, 4), good(1, 3, 4)},
		"not a number": {goodAnd(func(b *marketdata.Bar) { b.High = math.NaN() }), good(1)},
		"infinite":     {goodAnd(func(b *marketdata.Bar) { b.High = math.Inf(1) }), good(1)},
		"negative":     {goodAnd(func(b *marketdata.Bar) { b.Low = -1 }), good(1)},
		"zero":         {goodAnd(func(b *marketdata.Bar) { b.Open = 0 }), good(1)},
		"volume":       {goodAnd(func(b *marketdata.Bar) { b.Volume = -1 }), good(1)},
		"no volume":    {goodAnd(func(b *marketdata.Bar) { b.Volume = math.NaN() }), good(1)},
		"upside down":  {goodAnd(func(b *marketdata.Bar) { b.High, b.Low = b.Low, b.High }), good(1)},
		"not aligned":  {goodAnd(func(b *marketdata.Bar) { b.OpenTime++; b.CloseTime++ }), good(1)},
		"too long":     {goodAnd(func(b *marketdata.Bar) { b.CloseTime += 60_000 }), good(1)},
		"overflow": {goodAnd(func(b *marketdata.Bar) {
			b.OpenTime = math.MaxInt64 / 60_000 * 60_000
			b.CloseTime = b.OpenTime
			b.CloseTime += 60_000 // it wraps
		}), good(1)},
		"tomorrow":      {append(good(1, 1441), good(2)...), good(1, 2)},
		"reversed":      {append(good(1), minuteBar(2, .01), minuteBar(3, 100)), good(1, 3)},
		"first is wild": {append([]marketdata.Bar{minuteBar(1, 1e7)}, good(2, 3)...), good(2, 3)},
		"none":          {nil, nil},
	} {
		k := &AssetFeed{}
		got := k.sanitize(c.bars, prices.M1, now)
		if len(got) == 0 {
			got = nil
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestCheckTick(t *testing.T) {
	t.Parallel()
	now := int64(1_795_253_400_000)
	for _, c := range []struct {
		tick marketdata.Tick
		want prices.Reason
	}{
		{marketdata.Tick{Price: 101, Time: now}, ""},
		{marketdata.Tick{Price: 101, Time: now + futureMS}, ""},
		{marketdata.Tick{Price: 101, Time: now + futureMS + 1}, prices.SkipTime},
		{marketdata.Tick{Price: 101, Time: now / 1000}, prices.SkipTime}, // seconds
		{marketdata.Tick{Price: 101, Time: now - 1001}, prices.SkipOld},
		{marketdata.Tick{Price: 101, Volume: math.NaN(), Time: now}, prices.SkipVolume},
		{marketdata.Tick{Price: 101, Volume: -1, Time: now}, prices.SkipVolume},
		{marketdata.Tick{Price: math.NaN(), Time: now}, prices.SkipPrice},
		{marketdata.Tick{Price: math.Inf(1), Time: now}, prices.SkipPrice},
		{marketdata.Tick{Price: -101, Time: now}, prices.SkipPrice},
		{marketdata.Tick{Price: 0, Time: now}, prices.SkipPrice},
		{marketdata.Tick{Price: 1. / 101, Time: now}, prices.SkipLevel},
		{marketdata.Tick{Price: 500, Time: now}, prices.SkipLevel},
	} {
		k := &AssetFeed{level: 100, ticked: now - 1000}
		if got := k.checkTick(&c.tick, now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tick, got, c.want)
		}
	}
}

// Too many pending events are dropped as a whole, and bars make up for them.
func TestPendingEventsAreBounded(t *testing.T) {
	t.Parallel()
	k := &AssetFeed{}
	for range maxPending + 10 {
		k.push(binance.Event{Kind: binance.Trade})
	}
	if events, lost := k.take(); !lost || len(events) != 10 {
		t.Errorf("%d events, lost %t", len(events), lost)
	}
	k.push(binance.Event{Kind: binance.Trade})
	if events, lost := k.take(); lost || len(events) != 1 {
		t.Errorf("%d events, lost %t", len(events), lost)
	}
}

func TestSymbolsOfSources(t *testing.T) {
	t.Parallel()
	b, c, a := &binanceVenue{}, &coinbaseVenue{}, &alpacaVenue{}
	for _, x := range []struct{ symbol, class, binance, coinbase, alpaca string }{
		{"BTC", assets.Crypto, "BTCUSDT", "BTC-USD", ""},
		{"DOGE", "", "DOGEUSDT", "DOGE-USD", "DOGE"},
		{"DOGEUSDT", "", "DOGEUSDT", "DOGE-USD", ""},
		{"AAPL", assets.Stock, "", "", "AAPL"},
		{"BRK.B", assets.Stock, "", "", "BRK.B"},
		{"natural_gas", assets.Commodity, "", "", "UNG"},
		{"oil", assets.Commodity, "", "", "USO"},
		{"EURUSD", assets.FX, "", "", ""},
		{"XAUUSD", assets.Metal, "", "", ""},
		{"../x", "", "", "", ""},
		{"A&B=C", "", "", "", ""},
	} {
		for v, want := range map[Venue]string{b: x.binance, c: x.coinbase, a: x.alpaca} {
			if got, ok := v.Symbol(x.symbol, x.class); ok != (want != "") || ok && got != want {
				t.Errorf("%s at %s: %q, %t; want %q", x.symbol, v.Name(), got, ok, want)
			}
		}
	}
}
