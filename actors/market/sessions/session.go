// Package sessions counts the time in which an asset is traded: the hours and holidays of the New
// York stock exchange, those of currencies and of metals, and around the clock. The calendar follows rules, so
// future unscheduled closures are recognised only by their missing bars; see Following.
package sessions

import (
	"slices"
	"sort"
	"sync"
	"time"
	_ "time/tzdata" // for images without a time zone database

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Session is when an asset is traded. The zero value is Always.
type Session int

// The sessions.
const (
	Always Session = iota
	// Exchange is 09:30 to 16:00 in New York on trading days, and to 13:00 on short ones.
	Exchange
	// Currencies is Sunday 17:00 to Friday 17:00 in New York, without Christmas Day and New Year's Day, each from 17:00 of
	// the day before.
	Currencies
	// Metals is Sunday 18:00 to Friday 17:00 in New York, with a rest from 17:00 to 18:00 on each day. They rest on Good Friday,
	// Christmas Day and New Year's Day, and from 13:00 on the other holidays of the exchange.
	Metals
)

// Of returns the session of a real asset of a class. Commodities are traded through funds.
func Of(class string) Session {
	switch class {
	case assets.Stock, assets.Commodity:
		return Exchange
	case assets.FX:
		return Currencies
	case assets.Metal:
		return Metals
	}
	return Always
}

// Horizon bounds the search for the next session. No market rests that long.
const Horizon = 15 * 24 * time.Hour

// Span returns the session that contains t, or else the next one. A session is that of a day in New York, and that of
// currencies begins when the one of the day before ends.
func (s Session) Span(t time.Time) (opens, closes time.Time) {
	t = t.UTC()
	if s == Always {
		return time.Time{}, time.Unix(1<<40, 0).UTC()
	}
	y, m, d := t.In(newYork()).Date()
	day := date{y, m, d}
	for range int(Horizon.Hours() / 24) {
		if opens, closes, ok := s.day(day); ok && t.Before(closes) {
			return opens, closes
		}
		day = day.add(1)
	}
	return t.Add(Horizon), t.Add(Horizon)
}

// Open reports whether s is open at t.
func (s Session) Open(t time.Time) bool {
	opens, _ := s.Span(t)
	return !t.Before(opens)
}

// Next returns t if s is open then, else when it opens next.
func (s Session) Next(t time.Time) time.Time {
	if opens, _ := s.Span(t); t.Before(opens) {
		return opens
	}
	return t
}

// After returns when s has been open for d after t.
func (s Session) After(t time.Time, d time.Duration) time.Time {
	if s == Always {
		return t.Add(d)
	}
	for range 10_000 {
		opens, closes := s.Span(t)
		if t.Before(opens) {
			t = opens
		}
		left := closes.Sub(t)
		if d <= left {
			return t.Add(d)
		}
		d -= left
		t = closes
	}
	return t.Add(d)
}

// Between returns how long s was open from one time to a later one.
func (s Session) Between(from, to time.Time) time.Duration {
	if s == Always {
		return max(to.Sub(from), 0)
	}
	var sum time.Duration
	for from.Before(to) {
		opens, closes := s.Span(from)
		if from.Before(opens) {
			from = opens
		}
		end := closes
		if to.Before(end) {
			end = to
		}
		sum += max(end.Sub(from), 0)
		from = closes
	}
	return sum
}

// Following returns a function that returns the open time of the bar that follows a given one of
// bars, which are ascending and of one timeframe. Bars begin at multiples of their length, so the
// first one of a session may open before the session does. A session without any bar, of a
// timeframe with several bars a session, counts as a holiday that the calendar does not know yet.
func (s Session) Following(frame int, bars []marketdata.Bar) func(marketdata.Bar) int64 {
	step := prices.FrameMS[frame]
	var opens, closes int64 // of the session that was looked up last
	return func(b marketdata.Bar) int64 {
		for at := b.CloseTime; at < opens || at >= closes; at = closes {
			from, to := s.Span(prices.Time(at))
			opens, closes = from.UnixMilli(), to.UnixMilli()
			i := sort.Search(len(bars), func(i int) bool { return bars[i].OpenTime >= opens-opens%step })
			if frame == prices.D1 || i == len(bars) || bars[i].OpenTime < closes {
				break
			}
		}
		at := max(b.CloseTime, opens)
		return at - at%step
	}
}

// The lengths of regular sessions.
const (
	exchangeHours = 6*time.Hour + 30*time.Minute
	metalsHours   = 23 * time.Hour
)

// Lasting returns how long s is open while bars that together last d form. A daily bar is one session.
func (s Session) Lasting(d time.Duration, tf signal.Timeframe) time.Duration {
	hours := map[Session]time.Duration{Exchange: exchangeHours, Metals: metalsHours}[s]
	if hours == 0 || tf != signal.D1 {
		return d
	}
	return time.Duration(float64(d) / 24 * hours.Hours())
}

// newYork is the time zone of the stock exchange.
var newYork = sync.OnceValue(func() *time.Location {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic("load time zone: " + err.Error()) // it is part of the program
	}
	return zone
})

// day returns the session of a day in New York, or false on a day without trading.
func (s Session) day(d date) (opens, closes time.Time, ok bool) {
	if w := weekday(d); w == time.Saturday || w == time.Sunday {
		return opens, closes, false
	}
	at := func(day, hour, minute int) time.Time {
		return time.Date(d.year, d.month, d.day+day, hour, minute, 0, 0, newYork()).UTC()
	}
	switch s {
	case Exchange:
		closes = at(0, 16, 0)
		if closesEarly(d) {
			closes = at(0, 13, 0)
		}
		return at(0, 9, 30), closes, !holiday(d)
	case Metals:
		closes = at(0, 17, 0)
		switch {
		case restsEverywhere(d) || d == goodFriday(d.year):
			return opens, closes, false
		case holiday(d) && !slices.Contains(unscheduledClosures, d):
			closes = at(0, 13, 0)
		case closesEarly(d) && d.month != time.July:
			closes = at(0, 13, 45)
		}
		return at(-1, 18, 0), closes, true
	}
	return at(-1, 17, 0), at(0, 17, 0), !restsEverywhere(d)
}

// restsEverywhere reports whether nothing but what is always traded is traded on a weekday: Christmas Day and New Year's Day, or
// the Monday after one on a Sunday.
func restsEverywhere(d date) bool {
	for _, rest := range []date{{d.year, time.December, 25}, {d.year, time.January, 1}} {
		if d == rest || weekday(rest) == time.Sunday && d == rest.add(1) {
			return true
		}
	}
	return false
}

type date struct {
	year  int
	month time.Month
	day   int
}

// unscheduledClosures are days on which the exchange was closed outside of its rules.
var unscheduledClosures = []date{
	{2012, time.October, 29}, {2012, time.October, 30}, {2018, time.December, 5}, {2025, time.January, 9},
}

// holiday reports whether the stock exchange is closed on a weekday.
func holiday(this date) bool {
	y := this.year
	if slices.Contains(unscheduledClosures, this) {
		return true
	}
	fixed := []date{{y, time.July, 4}, {y, time.December, 25}}
	if y >= 2022 {
		fixed = append(fixed, date{y, time.June, 19})
	}
	for _, f := range fixed {
		if observed(f) == this {
			return true
		}
	}
	// A New Year's Day on a Saturday is not observed on the Friday before.
	if newYear := (date{y, time.January, 1}); weekday(newYear) != time.Saturday && observed(newYear) == this {
		return true
	}
	return slices.Contains([]date{
		nth(y, time.January, time.Monday, 3), nth(y, time.February, time.Monday, 3), goodFriday(y),
		nth(y, time.June, time.Monday, 1).add(-7), // the last Monday of May
		nth(y, time.September, time.Monday, 1), nth(y, time.November, time.Thursday, 4),
	}, this)
}

// closesEarly reports whether the exchange closes at 13:00 on a trading day: the day after
// Thanksgiving, Christmas Eve, and the eve of Independence Day.
func closesEarly(this date) bool {
	y := this.year
	eve := date{y, time.July, 3}
	switch weekday(date{y, time.July, 4}) {
	case time.Saturday, time.Sunday, time.Monday:
		eve = date{} // it is not a trading day
	}
	return this == eve || this == date{y, time.December, 24} || this == nth(y, time.November, time.Thursday, 4).add(1)
}

func (d date) time() time.Time { return time.Date(d.year, d.month, d.day, 12, 0, 0, 0, time.UTC) }

func (d date) add(days int) date {
	y, m, day := d.time().AddDate(0, 0, days).Date()
	return date{y, m, day}
}

func weekday(d date) time.Weekday { return d.time().Weekday() }

// observed returns the day on which a holiday on d is observed: the Friday before a Saturday, the
// Monday after a Sunday.
func observed(d date) date {
	switch weekday(d) {
	case time.Saturday:
		return d.add(-1)
	case time.Sunday:
		return d.add(1)
	}
	return d
}

// nth returns the nth weekday w of a month.
func nth(y int, m time.Month, w time.Weekday, n int) date {
	first := date{y, m, 1}
	return first.add((int(w)-int(weekday(first))+7)%7 + 7*(n-1))
}

// goodFriday returns the Friday before Easter in the Gregorian calendar.
func goodFriday(y int) date {
	golden := y % 19
	century := y / 100
	moon := (century - century/4 - (8*century+13)/25 + 19*golden + 15) % 30
	moon -= moon / 28 * (1 - 29/(moon+1)*((21-golden)/11))
	day := (y + y/4 + moon + 2 - century + century/4) % 7
	offset := moon - day
	month := 3 + (offset+40)/44
	return date{y, time.Month(month), offset + 28 - 31*(month/4)}.add(-2)
}
