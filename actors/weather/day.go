package weather

import (
	"math"
	"time"
)

// Date is a day: how many have passed since 1970-01-01.
type Date int

// DateOf returns the day, in UTC, of a time.
func DateOf(t time.Time) Date {
	return Date(math.Floor(float64(t.Unix()) / 86400))
}

// Time returns when d begins, in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns d as 2026-11-24.
func (d Date) String() string { return d.Time().Format(time.DateOnly) }

const yearDays = 365

// leapDay is the place of 28 February: 29 February lies between it and the next.
const leapDay = 58

// calendar returns the place of d in a year of 365 days, from 0. For 29 February that
// is the day before, and leap is true.
func (d Date) calendar() (day int, leap bool) {
	t := d.Time()
	day = t.YearDay() - 1
	if y := t.Year(); y%4 == 0 && (y%100 != 0 || y%400 == 0) && day > leapDay {
		return day - 1, day == leapDay+1
	}
	return day, false
}

// inYear returns the date with a place in the year of 365 days.
func inYear(year, day int) Date {
	d := firstOf(year) + Date(day)
	if day > leapDay && firstOf(year+1)-firstOf(year) > yearDays {
		d++
	}
	return d
}

// firstOf returns 1 January of a year after 1600.
func firstOf(year int) Date {
	y := year - 1
	const before1970 = 1969*yearDays + 1969/4 - 1969/100 + 1969/400
	return Date(y*yearDays + y/4 - y/100 + y/400 - before1970)
}

// monthOf returns the month, 1 to 12, of a place in the year.
func monthOf(day int) int {
	for m, first := range monthStarts {
		if day < first {
			return m
		}
	}
	return 12
}

// monthStarts are the places of the first days of months.
var monthStarts = [12]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}

// Day is the weather of a day at a point. A value that is not known is NaN.
type Day struct {
	Mean, Max, Min float32 // temperature, °C
	Rain           float32 // precipitation, mm
	ET0            float32 // reference evapotranspiration, mm
	Gust           float32 // greatest gust, km/h
}

var missing = float32(math.NaN())

// unknown is a day of which nothing is known.
var unknown = Day{missing, missing, missing, missing, missing, missing}

// Series is the weather of consecutive days at a point. Nobody changes it.
type Series struct {
	From Date
	Days []Day
}

// At returns the weather of a day; unknown outside the series.
func (s *Series) At(d Date) *Day {
	if i := int(d - s.From); i >= 0 && i < len(s.Days) {
		return &s.Days[i]
	}
	return &unknown
}

// Last returns the last day.
func (s *Series) Last() Date { return s.From + Date(len(s.Days)) - 1 }
