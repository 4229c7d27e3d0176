package backtest

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// stretched returns daily bars of a walk whose prices are multiplied by price, and volumes by volume, from bar at on.
func stretched(at int, price, volume float64) []marketdata.Bar {
	bars := walk(3, 200)
	for i := range bars {
		b := &bars[i]
		b.OpenTime = int64(i) * 24 * hour
		b.CloseTime = b.OpenTime + 24*hour
		if i >= at {
			b.Open, b.High, b.Low, b.Close, b.Volume = b.Open*price, b.High*price, b.Low*price, b.Close*price, b.Volume*volume
		}
	}
	return bars
}

// wider returns bars whose moves are as wide as those of a stock: walk moves by a fifth of a per cent an hour.
func wider(bars []marketdata.Bar, by float64) []marketdata.Bar {
	for i := range bars {
		b := &bars[i]
		for _, p := range []*float64{&b.Open, &b.High, &b.Low, &b.Close} {
			*p = 100 * math.Pow(*p/100, by)
		}
	}
	return bars
}

// recovers returns a change by which prices that were halved at a bar double within a number of bars.
func recovers(at, within int) func([]marketdata.Bar) {
	return func(bars []marketdata.Bar) {
		for i := at; i < len(bars); i++ {
			b := &bars[i]
			if i > at {
				b.Open = bars[i-1].Close
			}
			b.Close *= 1 + min(1, float64(i-at)/float64(within))
			b.High, b.Low = max(b.Open, b.Close), min(b.Open, b.Close)
		}
	}
}

// TestSplitsAreSeenByTheirRatio checks that a daily open near a ratio of shares is a jump although it is nearer than 20 mean
// ranges, and that what volume or the bars after it contradict is none.
func TestSplitsAreSeenByTheirRatio(t *testing.T) {
	t.Parallel()
	const at, wide = 120, 9 // a mean range of 5 %
	for name, c := range map[string]struct {
		price, volume float64
		change        func(bars []marketdata.Bar)
		want          string
	}{
		"two for one":              {1. / 2, 2, nil, "2:1"},
		"its inverse":              {2, .5, nil, "1:2"},
		"three for two":            {2. / 3, 1.5, nil, "3:2"},
		"four for three":           {3. / 4, 4. / 3, nil, "4:3"},
		"seven for one":            {1. / 7, 7, nil, "7:1"},
		"twenty to one":            {20, 1. / 20, nil, "1:20"},
		"one and a half per cent":  {.5075, 2, nil, "2:1"},
		"no volume":                {.5, 0, nil, "2:1"},
		"volume as before":         {.5, 1, nil, "2:1"},
		"ten for one, adjusted":    {.1, 1, nil, "10:1"},
		"a crash of a half":        {.5, 20, nil, ""},
		"a crash of a quarter":     {.75, 5, nil, ""},
		"a third, volume falls":    {2. / 3, .5, nil, ""},
		"of another ratio":         {.58, 2, nil, ""},
		"a quarter, no volume":     {.77, 0, nil, ""},
		"a quarter to the cent":    {.75, 0, nil, "4:3"},
		"it returns in three bars": {.5, 2, recovers(at, 3), ""},
		"it returns in weeks":      {.5, 2, recovers(at, 12), "2:1"},
		"after an outage":          {.5, 2, nil, "cut"},
	} {
		bars := wider(stretched(at, 1, 1), wide)
		for i := at; i < len(bars); i++ {
			b := &bars[i]
			b.Open, b.High, b.Low, b.Close, b.Volume = b.Open*c.price, b.High*c.price, b.Low*c.price, b.Close*c.price, b.Volume*c.volume
		}
		if c.volume == 0 {
			for i := range bars {
				bars[i].Volume = 0
			}
		}
		bars[at].Open = bars[at-1].Close * c.price
		if c.change != nil {
			c.change(bars)
		}
		var cuts []int
		if c.want == "cut" {
			cuts, c.want = []int{at}, ""
		}
		greatest, found := FindJumps(bars, signal.D1, cuts)
		got := ""
		for _, j := range found {
			if j.bar == at && j.Ranges < maxJump || j.Split != "" {
				got += j.Split
			}
		}
		if got != c.want || (greatest != nil && greatest.At == bars[at].OpenTime) == (cuts != nil) {
			t.Errorf("%s: %q (%v), greatest %v, want %q", name, got, found, greatest, c.want)
		}
	}
}

// TestNightsAreJudgedByDays checks that a bar after a closed session is judged by the ranges of sessions, and one within it by
// those of bars.
func TestNightsAreJudgedByDays(t *testing.T) {
	t.Parallel()
	minutes := func(change func(day, minute int, price float64) float64) (bars []marketdata.Bar) {
		price := 100.0
		for day := range 6 {
			for m := range 390 {
				open := price
				if open = change(day, m, price); m%2 == 0 {
					price = open + .02
				} else {
					price = open - .0195
				}
				at := int64(day)*24*hour + int64(m)*60_000
				bars = append(bars, marketdata.Bar{OpenTime: at, CloseTime: at + 60_000, Open: open, Close: price,
					High: max(open, price) + .005, Low: min(open, price) - .005, Volume: 5})
			}
		}
		return bars
	}
	night := minutes(func(day, m int, price float64) float64 {
		if day == 3 && m == 0 {
			return price + 1 // 30 ranges of a minute, some ranges of a day
		}
		return price
	})
	if greatest, found := FindJumps(night, signal.M1, nil); len(found) != 0 || greatest.At != night[3*390].OpenTime ||
		greatest.Ranges > 10 {
		t.Errorf("overnight: %v, greatest %v", found, greatest)
	}
	noon := minutes(func(day, m int, price float64) float64 {
		if day == 3 && m == 200 {
			return price + 1
		}
		return price
	})
	if greatest, found := FindJumps(noon, signal.M1, nil); len(found) != 1 || found[0].bar != 3*390+200 || *greatest != found[0] {
		t.Errorf("at noon: %v, greatest %v", found, greatest)
	}
	halved := minutes(func(day, m int, price float64) float64 {
		if day == 3 && m == 0 {
			return price / 2
		}
		return price
	})
	if _, found := FindJumps(halved, signal.M1, nil); len(found) != 1 || found[0].Split != "2:1" {
		t.Errorf("a split overnight: %v", found)
	}
}

// TestJumpsAreSent checks the JSON of a jump.
func TestJumpsAreSent(t *testing.T) {
	t.Parallel()
	at := time.Date(2023, 2, 5, 0, 0, 0, 0, time.UTC).UnixMilli()
	text, err := json.Marshal(Jump{At: at, Percent: -50, Ranges: 12.5, Split: "2:1"})
	if want := `{"at":"2023-02-05T00:00:00.000Z","percent":-50.0000,"ranges":12.5000,"split":"2:1"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}
