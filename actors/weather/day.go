package weather

import (
	"math"
	"time"
)

// Date is a day, counted from 1970-01-01.
type Date int

// DateOf returns the day of a time in UTC.
func DateOf(t time.Time) Date {
	return Date(math.Floor(float64(t.Unix()) / 86400))
}

// Time returns the beginning of d in UTC.
func (d Date) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns d as 2026-11-24.
func (d Date) String() string { return d.Time().Format(time.DateOnly) }

const yearDays = 365

// leapDay is the index of 28 February: 29 February lies between it and the next.
const leapDay = 58

// calendar returns the index of d in a year of 365 days, from 0. For 29 February it is
// that of the day before, and leap is true.
func (d Date) calendar() (day int, leap bool) {
	t := d.Time()
	day = t.YearDay() - 1
	if y := t.Year(); y%4 == 0 && (y%100 != 0 || y%400 == 0) && day > leapDay {
		return day - 1, day == leapDay+1
	}
	return day, false
}

// inYear returns the date with an index in the year of 365 days.
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

// monthOf returns the month, 1 to 12, of an index in the year.
func monthOf(day int) int {
	for m, first := range monthStarts {
		if day < first {
			return m
		}
	}
	return 12
}

// monthStarts are the indexes of the first days of the months.
var monthStarts = [12]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}

// Day is the weather of a day at a point. An unknown value is NaN.
type Day struct {
	Mean, Max, Min float32 // temperature, °C
	Rain           float32 // precipitation, mm
	ET0            float32 // reference evapotranspiration, mm
	Gust           float32 // maximum gust, km/h
}

var missing = float32(math.NaN())

// unknown is a day without any known value.
var unknown = Day{missing, missing, missing, missing, missing, missing}

// Series is the weather of consecutive days at a point. It is read-only.
type Series struct {
	From Date
	Days []Day
}

// At returns the weather of a day, and unknown outside the series.
func (s *Series) At(d Date) *Day {
	if i := int(d - s.From); i >= 0 && i < len(s.Days) {
		return &s.Days[i]
	}
	return &unknown
}

// Last returns the last day.
func (s *Series) Last() Date { return s.From + Date(len(s.Days)) - 1 }
