package source

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// at is when the entries of these tests were written.
const at = 1_795_253_400_123

// with returns fields with changes. The value "-" removes a field.
func with(fields map[string]string, changes ...string) map[string]string {
	fields = maps.Clone(fields)
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			delete(fields, changes[i])
		} else {
			fields[changes[i]] = changes[i+1]
		}
	}
	return fields
}

var goodTick = map[string]string{"asset": "BTC", "price": "67000.5", "volume": "0.1", "time": "1795253400000"}

func TestTicksAreChecked(t *testing.T) {
	t.Parallel()
	good, none := marketdata.Tick{Price: 67000.5, Volume: .1, Time: 1_795_253_400_000}, marketdata.Tick{}
	for _, c := range []struct {
		name    string
		changes []string
		want    marketdata.Tick
		skipped prices.Reason
	}{
		{"complete", nil, good, ""},
		{"without volume", []string{"volume", "-"}, marketdata.Tick{Price: 67000.5, Time: good.Time}, ""},
		{"without time", []string{"time", "-"}, marketdata.Tick{Price: 67000.5, Volume: .1, Time: at}, ""},
		{"exponent", []string{"price", "6.7e4"}, marketdata.Tick{Price: 67000, Volume: .1, Time: good.Time}, ""},
		{"a little ahead", []string{"time", "1795253405000"},
			marketdata.Tick{Price: 67000.5, Volume: .1, Time: 1_795_253_405_000}, ""},
		{"far ahead", []string{"time", "1795253406000"}, none, prices.SkipTime},
		{"time in seconds", []string{"time", "1795253400"}, none, prices.SkipTime},
		{"negative time", []string{"time", "-1795253400000"}, none, prices.SkipTime},
		{"endless time", []string{"time", "99999999999999999999"}, none, prices.SkipTime},
		{"time with a fraction", []string{"time", "1795253400000.5"}, none, prices.SkipTime},
		{"unknown field", []string{"exchange", "x"}, none, prices.SkipFields},
		{"no price", []string{"price", "-"}, none, prices.SkipFields},
		{"no asset", []string{"asset", "-"}, none, prices.SkipFields},
		{"empty asset", []string{"asset", ""}, none, prices.SkipAsset},
		{"65 characters", []string{"asset", strings.Repeat("x", 65)}, none, prices.SkipAsset},
		{"control character", []string{"asset", "BT\nC"}, none, prices.SkipAsset},
		{"C1 control character", []string{"asset", "BT\u0085C"}, none, prices.SkipAsset},
		{"not UTF-8", []string{"asset", "BT\xffC"}, none, prices.SkipAsset},
		{"space at the end", []string{"asset", "BTC "}, none, prices.SkipAsset},
		{"NaN", []string{"price", "NaN"}, none, prices.SkipNumber},
		{"Inf", []string{"price", "+Inf"}, none, prices.SkipNumber},
		{"overflow", []string{"price", "1e999"}, none, prices.SkipNumber},
		{"hexadecimal", []string{"price", "0x1p4"}, none, prices.SkipNumber},
		{"empty price", []string{"price", ""}, none, prices.SkipNumber},
		{"words", []string{"price", "cheap"}, none, prices.SkipNumber},
		{"two points", []string{"price", "1.2.3"}, none, prices.SkipNumber},
		{"negative price", []string{"price", "-1"}, none, prices.SkipPrice},
		{"zero", []string{"price", "0"}, none, prices.SkipPrice},
		{"absurd price", []string{"price", "1e13"}, none, prices.SkipPrice},
		{"absurdly small price", []string{"price", "1e-12"}, none, prices.SkipPrice},
		{"pretending to be a source", []string{"source", "simulated"}, none, prices.SkipForged},
		{"pretending to be another", []string{"source", "stream"}, none, prices.SkipForged},
		{"pretending to be one after a gap", []string{"missed", "1795253400000"}, none, prices.SkipForged},
		{"empty source and an unknown field", []string{"source", "", "x", ""}, none, prices.SkipFields},
		{"negative volume", []string{"volume", "-1"}, none, prices.SkipVolume},
		{"NaN volume", []string{"volume", "nan"}, none, prices.SkipNumber},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &marketdata.Entry{Position: signal.Position{MS: at}, Fields: with(goodTick, c.changes...)}
			got, skipped := ParseTick(marketdata.GivenTicks, e)
			if skipped != c.skipped {
				t.Fatalf("skipped for %q, want %q", skipped, c.skipped)
			}
			want := marketdata.AssetTick{Asset: "BTC", Source: "stream", Tick: c.want}
			if d := cmp.Diff(want, got); skipped == "" && d != "" {
				t.Errorf("tick (-want +got):\n%s", d)
			}
		})
	}
}

func TestTicksOfRoundsAreChecked(t *testing.T) {
	t.Parallel()
	good := marketdata.AssetTick{Asset: "BTC", Source: "simulated",
		Tick: marketdata.Tick{Price: 67000.5, Volume: .1, Time: at}}
	for _, c := range []struct {
		name    string
		change  func(*marketdata.AssetTick)
		skipped prices.Reason
	}{
		{"a whole one", func(*marketdata.AssetTick) {}, ""},
		{"after a gap", func(t *marketdata.AssetTick) { t.Missed = at - 1 }, ""},
		{"after a gap without a beginning", func(t *marketdata.AssetTick) { t.Missed = 5 }, prices.SkipTime},
		{"no asset", func(t *marketdata.AssetTick) { t.Asset = "" }, prices.SkipAsset},
		{"NaN", func(t *marketdata.AssetTick) { t.Price = math.NaN() }, prices.SkipPrice},
		{"absurd price", func(t *marketdata.AssetTick) { t.Price = math.Inf(1) }, prices.SkipPrice},
		{"zero", func(t *marketdata.AssetTick) { t.Price = 0 }, prices.SkipPrice},
		{"NaN volume", func(t *marketdata.AssetTick) { t.Volume = math.NaN() }, prices.SkipVolume},
		{"negative volume", func(t *marketdata.AssetTick) { t.Volume = -1 }, prices.SkipVolume},
		{"far ahead", func(t *marketdata.AssetTick) { t.Time = at + futureMS + 1 }, prices.SkipTime},
		{"long ago", func(t *marketdata.AssetTick) { t.Time = 0 }, prices.SkipTime},
		{"a source that is unknown", func(t *marketdata.AssetTick) { t.Source = "exchange" }, prices.SkipFields},
		{"a source that has no ticks of its own", func(t *marketdata.AssetTick) { t.Source = Stream }, prices.SkipFields},
	} {
		tick := good
		c.change(&tick)
		got, skipped := ParseTick(marketdata.OwnTicks, &marketdata.Entry{Position: signal.Position{MS: at}, Tick: &tick})
		if skipped != c.skipped || skipped == "" && got != tick {
			t.Errorf("%s: %+v, skipped for %q, want %q", c.name, got, skipped, c.skipped)
		}
	}
	for _, fields := range []map[string]string{{"r": "x"}, goodTick, with(goodTick, "source", "simulated")} {
		damaged := &marketdata.Entry{Position: signal.Position{MS: at}, Fields: fields}
		if _, skipped := ParseTick(marketdata.OwnTicks, damaged); skipped != prices.SkipFields {
			t.Errorf("a round that cannot be read, %v, is skipped for %q", fields, skipped)
		}
	}
}

var goodBar = map[string]string{
	"asset": "BTC", "timeframe": "1h", "open_time": "1795248000000",
	"open": "66900", "high": "67100", "low": "66850", "close": "67000.5", "volume": "12.5",
}

func TestBarsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		changes []string
		skipped prices.Reason
	}{
		{"a whole one", nil, ""},
		{"without volume", []string{"volume", "-"}, ""},
		{"all prices equal", []string{"open", "5", "high", "5", "low", "5", "close", "5"}, ""},
		{"no close", []string{"close", "-"}, prices.SkipFields},
		{"unknown field", []string{"vwap", "1"}, prices.SkipFields},
		{"high below low", []string{"high", "66000"}, prices.SkipRange},
		{"high below close", []string{"high", "66950"}, prices.SkipRange},
		{"low above open", []string{"low", "66950"}, prices.SkipRange},
		{"negative low", []string{"low", "-5"}, prices.SkipPrice},
		{"NaN high", []string{"high", "NaN"}, prices.SkipNumber},
		{"negative volume", []string{"volume", "-5"}, prices.SkipVolume},
		{"unknown timeframe", []string{"timeframe", "2h"}, prices.SkipTimeframe},
		{"empty timeframe", []string{"timeframe", ""}, prices.SkipTimeframe},
		{"not aligned", []string{"open_time", "1795248000001"}, prices.SkipTime},
		{"still open", []string{"open_time", "1795251600000"}, prices.SkipTime},
		{"in the future", []string{"open_time", "1795258800000"}, prices.SkipTime},
		{"far in the future", []string{"open_time", "999999999999999"}, prices.SkipTime},
		{"in seconds", []string{"open_time", "1795248000"}, prices.SkipTime},
		{"no name", []string{"asset", ""}, prices.SkipAsset},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &marketdata.Entry{Position: signal.Position{MS: at}, Fields: with(goodBar, c.changes...)}
			b, skipped := ParseBar(e)
			if skipped == "" {
				skipped = CheckBarTime(&b, prices.Grid{Speed: 1}, at)
			}
			if skipped != c.skipped {
				t.Fatalf("skipped for %q, want %q", skipped, c.skipped)
			}
			if skipped == "" && b.CloseTime-b.OpenTime != 3_600_000 {
				t.Errorf("bar is %+v", b)
			}
		})
	}
}

func FuzzParseTick(f *testing.F) {
	f.Add("BTC", "67000.5", "0.1", "1795253400000")
	f.Add("", "NaN", "-1", "x")
	f.Add("a", "1e-400", "", "0")
	f.Fuzz(func(t *testing.T, asset, price, volume, time string) {
		e := &marketdata.Entry{Position: signal.Position{MS: at},
			Fields: map[string]string{"asset": asset, "price": price, "volume": volume, "time": time}}
		tick, skipped := ParseTick(marketdata.GivenTicks, e)
		valid := tick.Price > 0 && !math.IsInf(tick.Price, 0) && tick.Volume >= 0 &&
			tick.Time <= at+futureMS && tick.Time >= earliestTime && validName(tick.Asset)
		if skipped == "" && !valid {
			t.Errorf("%q passed as %+v", e.Fields, tick)
		}
	})
}

func FuzzParseBar(f *testing.F) {
	f.Add("BTC", "1h", "1795248000000", "66900", "67100", "66850", "67000.5", "12.5")
	f.Add("x", "1m", "0", "-1", "Inf", "0x1", "", "1e999")
	f.Fuzz(func(t *testing.T, asset, tf, openTime, open, high, low, closing, volume string) {
		e := &marketdata.Entry{Position: signal.Position{MS: at}, Fields: map[string]string{
			"asset": asset, "timeframe": tf, "open_time": openTime,
			"open": open, "high": high, "low": low, "close": closing, "volume": volume,
		}}
		b, skipped := ParseBar(e)
		if skipped == "" {
			skipped = CheckBarTime(&b, prices.Grid{Speed: 1}, at)
		}
		valid := b.Low > 0 && b.High >= b.Low && b.Open <= b.High && b.Close >= b.Low && b.Volume >= 0 &&
			!math.IsInf(b.High, 0) && b.CloseTime > b.OpenTime && b.CloseTime <= at+futureMS
		if skipped == "" && !valid {
			t.Errorf("%q passed as %+v", e.Fields, b)
		}
	})
}

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
		got := sanitize(c.bars, prices.M1, now, nil)
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
		k := &listener{AssetFeed: &AssetFeed{level: 100, ticked: now - 1000}}
		if got := k.checkTick(&c.tick, now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tick, got, c.want)
		}
	}
}

// Too many pending events are dropped as a whole, and bars make up for them.
func TestPendingEventsAreBounded(t *testing.T) {
	t.Parallel()
	k := &inbox{}
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
