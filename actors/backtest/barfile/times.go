package barfile

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// DateOrder is the order of day and month in dates such as 05/06/2024.
type DateOrder string

// The orders. Unknown means that the file decides.
const (
	UnknownOrder DateOrder = ""
	DayFirst     DateOrder = "day-first"
	MonthFirst   DateOrder = "month-first"
)

// Numbers are times from 1971 to 2200, so that their unit is known by their magnitude. Written
// dates may have any year from 1600 on.
const (
	firstSecond = 365 * 86400
	lastSecond  = 7_258_118_400
	firstYear   = 1600
)

const (
	dayMs    = 86_400_000
	hourMs   = 3_600_000
	minuteMs = 60_000
)

// stamp is a time as it is written.
type stamp struct {
	ms     int64 // since 1970, by the written clock
	offset int32 // what the written clock is ahead of UTC, in minutes
	zoned  bool  // an offset is written, or the time is a number since 1970
	clock  bool  // it has a time of day
	day    bool  // it has a date
	unit   unit
}

// utc returns the time in milliseconds since 1970, UTC.
func (s stamp) utc() int64 { return s.ms - int64(s.offset)*minuteMs }

// unit is how a time is counted since 1970.
type unit uint8

const (
	written unit = iota // a date
	seconds
	milliseconds
	microseconds
	nanoseconds
)

// String returns the unit as reports name it.
func (u unit) String() string {
	return [...]string{"dates", "seconds", "milliseconds", "microseconds", "nanoseconds"}[u]
}

// dateMs returns a date in milliseconds since 1970; false if there is none.
func dateMs(year, month, day int) (int64, bool) {
	if year < firstYear || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	d := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return d.UnixMilli(), day <= 28 || d.Day() == day
}

// clockMs returns a time of day in milliseconds; false if there is none.
func clockMs(hour, minute, second int) (int64, bool) {
	return int64(hour)*hourMs + int64(minute)*minuteMs + int64(second)*1000,
		hour|minute|second >= 0 && hour < 24 && minute < 60 && second < 60
}

// timeReader reads times. It remembers the last date, which the next row often has as well.
type timeReader struct {
	order DateOrder
	date  [10]byte
	ms    int64 // of date
	zone  *time.Location
	named string // the name of zone
}

// parse reads a time in any form.
func (t *timeReader) parse(cell []byte) (stamp, bool) {
	if s, ok := t.plain(cell); ok {
		return s, true
	}
	if s, ok := parseCount(cell); ok {
		return s, true
	}
	p := parts{zone: t}
	if !p.scan(cell) {
		return stamp{}, false
	}
	return p.stamp(t.order)
}

// plain reads the most frequent forms: 2006-01-02, and this with 15:04 or 15:04:05 after a space or T,
// without an offset or with Z.
func (t *timeReader) plain(b []byte) (s stamp, ok bool) {
	if len(b) < 10 || b[4] != b[7] || b[4] != '-' && b[4] != '.' && b[4] != '/' {
		return s, false
	}
	if date := [10]byte(b); date != t.date {
		ms, ok := dateMs(pair(b)*100+pair(b[2:]), pair(b[5:]), pair(b[8:]))
		if !ok {
			return s, false
		}
		t.date, t.ms = date, ms
	}
	s.ms, s.day = t.ms, true
	if len(b) == 10 {
		return s, true
	}
	if n := len(b); b[n-1] == 'Z' {
		s.zoned, b = true, b[:n-1]
	}
	second := 0
	switch {
	case len(b) != 16 && len(b) != 19 || b[10] != ' ' && b[10] != 'T' || b[13] != ':':
		return s, false
	case len(b) == 19 && b[16] != ':':
		return s, false
	case len(b) == 19:
		second = pair(b[17:])
	}
	ms, ok := clockMs(pair(b[11:]), pair(b[14:]), second)
	s.ms, s.clock = s.ms+ms, true
	return s, ok
}

// pair returns the number that two digits make; negative if they are none.
func pair(b []byte) int {
	x, y := int(b[0])-'0', int(b[1])-'0'
	if uint(x) > 9 || uint(y) > 9 {
		return -1 << 20
	}
	return x*10 + y
}

// parseCount reads a time that is one number: since 1970 in the unit that its magnitude shows, or the
// digits of a date.
func parseCount(cell []byte) (stamp, bool) {
	if len(cell) >= 8 && len(cell) <= 19 && allDigits(cell) {
		if s, ok := compactDate(cell); ok {
			return s, true
		}
		n, err := strconv.ParseInt(string(cell), 10, 64)
		return since1970(n), err == nil && since1970(n).day
	}
	if len(cell) < 9 || cell[0]-'0' > 9 || bytes.IndexByte(cell, '.') < 0 && bytes.IndexByte(cell, 'e') < 0 {
		return stamp{}, false
	}
	v, err := strconv.ParseFloat(string(cell), 64) // of programs that have only such numbers
	if err != nil || !(v < 9e18) {
		return stamp{}, false
	}
	s := since1970(int64(v))
	return s, s.day
}

// since1970 returns the time of a number since 1970, the zero stamp if it is out of bounds.
func since1970(n int64) stamp {
	s := stamp{zoned: true, clock: true, day: true}
	switch {
	case n < firstSecond:
		return stamp{}
	case n < lastSecond:
		s.ms, s.unit = n*1000, seconds
	case n >= firstSecond*1e3 && n < lastSecond*1e3:
		s.ms, s.unit = n, milliseconds
	case n >= firstSecond*1e6 && n < lastSecond*1e6:
		s.ms, s.unit = n/1e3, microseconds
	case n >= firstSecond*1e9 && n < lastSecond*1e9:
		s.ms, s.unit = n/1e6, nanoseconds
	default:
		return stamp{}
	}
	return s
}

// compactDate reads 20060102, 2006010215, 200601021504, 20060102150405 and the last with milliseconds.
// Few numbers since 1970 look like these: seconds of 2030 and later, and milliseconds of 1975 and 1976.
func compactDate(b []byte) (s stamp, ok bool) {
	switch len(b) {
	case 8, 10, 12, 14, 17:
	default:
		return s, false
	}
	year := pair(b)*100 + pair(b[2:])
	s.ms, ok = dateMs(year, pair(b[4:]), pair(b[6:]))
	if !ok || year < 1800 || year >= 2200 {
		return s, false
	}
	var of [3]int
	for i := range of {
		if at := 8 + 2*i; at+2 <= len(b) {
			of[i], s.clock = pair(b[at:]), true
		}
	}
	ms, ok := clockMs(of[0], of[1], of[2])
	s.ms, s.day = s.ms+ms, true
	return s, ok
}

// parts are the numbers and words of a time in another form.
type parts struct {
	zone   *timeReader // has the zone that was named last
	dates  [3]int      // numbers of the date
	width  [3]int      // of each, in digits
	n      int
	sep    byte // between the first two
	month  int  // by name; 0: by number
	ms     int64
	clock  bool
	zoned  bool
	offset int32
	place  bool // the zone is named by a place
}

// months has the first three letters of the names of months.
const months = "janfebmaraprmayjunjulaugsepoctnovdec"

// zones has the offsets of names of zones, in minutes.
var zones = map[string]int32{"z": 0, "utc": 0, "gmt": 0, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "pst": -480,
	"pdt": -420, "cet": 60, "cest": 120, "eet": 120, "eest": 180, "bst": 60, "msk": 180, "jst": 540}

// scan finds the numbers and words of a time.
func (p *parts) scan(b []byte) bool {
	for i := 0; i < len(b); {
		c := b[i]
		end, ok := i+1, true
		switch {
		case c-'0' <= 9:
			for end < len(b) && b[end]-'0' <= 9 {
				end++
			}
			end, ok = p.number(b, i, end)
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			for end < len(b) && (b[end]|0x20 >= 'a' && b[end]|0x20 <= 'z' || p.clock && (b[end] == '/' || b[end] == '_')) {
				end++
			}
			ok = p.word(string(b[i:end]))
		case (c == '+' || c == '-') && p.clock && end < len(b) && b[end]-'0' <= 9:
			end, ok = p.shift(b, i)
		case c == '-' || c == '/' || c == '.':
			if p.n == 1 && p.sep == 0 {
				p.sep = c
			}
		case c >= 0x80:
			for end < len(b) && b[end] >= 0x80 {
				end++
			}
			switch string(b[i:end]) {
			case "年", "月", "日", "년", "월", "일", "\u00a0":
			default:
				ok = false
			}
		case c != ' ' && c != ',':
			return false
		}
		if !ok {
			return false
		}
		i = end
	}
	return p.clock || p.n > 0
}

// number takes the digits of b from i to end and returns where to go on.
func (p *parts) number(b []byte, i, end int) (int, bool) {
	digits := b[i:end]
	if len(digits) > 8 {
		return end, false
	}
	v, _ := strconv.Atoi(string(digits)) // at most eight digits
	whole := p.n == 3 || p.n == 2 && p.month > 0
	switch {
	case end < len(b) && b[end] == ':':
		return p.hours(b, v, end)
	case whole && !p.clock && len(digits) <= 6:
		var ok bool
		p.ms, ok = compactClock(v, len(digits))
		p.clock = true
		return end, ok
	case len(digits) == 8 && p.n == 0:
		p.dates, p.width, p.n = [3]int{v / 10000, v / 100 % 100, v % 100}, [3]int{4, 2, 2}, 3
		return end, true
	case p.n == 3 || len(digits) > 4:
		return end, false
	}
	p.dates[p.n], p.width[p.n] = v, len(digits)
	p.n++
	return end, true
}

// hours reads the rest of a clock, from the colon at i, after its hours.
func (p *parts) hours(b []byte, hour, i int) (int, bool) {
	fields := [3]int{hour}
	for n := 1; n < 3 && i+2 < len(b) && b[i] == ':'; n++ {
		fields[n] = pair(b[i+1:])
		i += 3
	}
	var ok bool
	if p.ms, ok = clockMs(fields[0], fields[1], fields[2]); !ok || p.clock {
		return i, false
	}
	p.clock = true
	if i+1 < len(b) && (b[i] == '.' || b[i] == ',' || b[i] == ':') && b[i+1]-'0' <= 9 {
		unit := int64(100)
		for i++; i < len(b) && b[i]-'0' <= 9; i++ {
			p.ms += int64(b[i]-'0') * unit
			unit /= 10
		}
	}
	return i, true
}

// compactClock reads a clock that is one number: hours, hours and minutes, or these with seconds.
func compactClock(v, digits int) (int64, bool) {
	switch {
	case digits > 4:
		return clockMs(v/10000, v/100%100, v%100)
	case digits > 2:
		return clockMs(v/100, v%100, 0)
	}
	return clockMs(v, 0, 0)
}

// shift reads the offset of a zone at i.
func (p *parts) shift(b []byte, i int) (int, bool) {
	end := i + 1
	for end < len(b) && (b[end]-'0' <= 9 || b[end] == ':') {
		end++
	}
	digits := bytes.ReplaceAll(b[i+1:end], []byte(":"), nil)
	if n := len(digits); p.offset != 0 || n != 2 && n != 4 {
		return end, false
	}
	minutes := pair(digits) * 60
	if len(digits) == 4 {
		minutes += pair(digits[2:])
	}
	if b[i] == '-' {
		minutes = -minutes
	}
	p.zoned, p.offset = true, int32(minutes)
	return end, minutes >= -15*60 && minutes <= 15*60
}

// word takes a word.
func (p *parts) word(text string) bool {
	w := strings.ToLower(text)
	switch w {
	case "t", "th", "st", "nd", "rd":
		return p.n > 0
	case "am", "pm":
		if !p.clock || p.ms >= 13*hourMs {
			return false
		}
		p.ms %= 12 * hourMs
		if w == "pm" {
			p.ms += 12 * hourMs
		}
		return true
	}
	if offset, ok := zones[w]; ok && p.clock {
		p.zoned, p.offset = true, offset
		return true
	}
	if p.clock && strings.Contains(w, "/") {
		if p.zone.named != text {
			p.zone.zone, _ = time.LoadLocation(text) // nil if there is none
			p.zone.named = text
		}
		p.zoned, p.place = true, true
		return p.zone.zone != nil
	}
	if len(w) < 3 || len(w) > 9 {
		return false
	}
	if i := strings.Index(months, w[:3]); i >= 0 && i%3 == 0 && p.month == 0 {
		p.month = i/3 + 1
		return w == "sept" || strings.HasPrefix(strings.ToLower(time.Month(p.month).String()), w)
	}
	return strings.Contains("monday tuesday wednesday thursday friday saturday sunday", w)
}

// date returns the date in milliseconds.
func (p *parts) date(order DateOrder) (int64, bool) {
	a, b, c := p.dates[0], p.dates[1], p.dates[2]
	switch {
	case p.month > 0 && p.n == 2 && p.width[0] == 4:
		return dateMs(a, p.month, b)
	case p.month > 0 && p.n == 2:
		return dateMs(fullYear(b), p.month, a)
	case p.month > 0 || p.n != 3 || p.width[2] == 3:
		return 0, false
	case p.width[0] == 4:
		return dateMs(a, b, c)
	case p.width[2] == 1:
		return 0, false
	case order == MonthFirst:
		return dateMs(fullYear(c), a, b)
	}
	return dateMs(fullYear(c), b, a)
}

// fullYear completes a year of two digits.
func fullYear(y int) int {
	switch {
	case y < 70:
		return y + 2000
	case y < 100:
		return y + 1900
	}
	return y
}

// shows returns the order that a date shows by itself, or Unknown; numeric reports whether it has one.
func (p *parts) shows() (order DateOrder, numeric bool) {
	switch {
	case p.month > 0 || p.n != 3 || p.width[0] == 4:
		return UnknownOrder, false
	case p.dates[0] > 12:
		return DayFirst, true
	case p.dates[1] > 12:
		return MonthFirst, true
	}
	return UnknownOrder, true
}

// stamp returns the time.
func (p *parts) stamp(order DateOrder) (s stamp, ok bool) {
	s = stamp{ms: p.ms, clock: p.clock, zoned: p.zoned, offset: p.offset}
	if p.n == 0 {
		return s, p.clock && p.month == 0
	}
	date, ok := p.date(order)
	s.ms, s.day = s.ms+date, true
	if ok && p.place {
		u := time.UnixMilli(s.ms).UTC()
		_, ahead := time.Date(u.Year(), u.Month(), u.Day(), u.Hour(), u.Minute(), 0, 0, p.zone.zone).Zone()
		s.offset = int32(ahead / 60)
	}
	return s, ok
}

// parseClock reads a time of day, which may be a number such as 093000. withSeconds reports whether the
// numbers of the column have seconds.
func parseClock(cell []byte, withSeconds bool) (int64, bool) {
	if len(cell) == 5 && cell[2] == ':' {
		return clockMs(pair(cell), pair(cell[3:]), 0)
	}
	if len(cell) <= 6 && allDigits(cell) {
		v, _ := strconv.Atoi(string(cell)) // at most six digits
		if withSeconds {
			return compactClock(v, 6)
		}
		return compactClock(v, 4)
	}
	p := parts{zone: &timeReader{}}
	if !p.scan(cell) || p.n > 0 || !p.clock {
		return 0, false
	}
	return p.ms, true
}

// durationText writes a distance of times.
func durationText(ms int64) string {
	if ms%dayMs == 0 && ms > dayMs {
		return strconv.FormatInt(ms/dayMs, 10) + " days"
	}
	return wholeUnits.Replace((time.Duration(ms) * time.Millisecond).Round(time.Second).String())
}

// wholeUnits removes zero units from a duration.
var wholeUnits = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// dateText writes a time: as a date if it is midnight.
func dateText(ms int64) string {
	at := time.UnixMilli(ms).UTC()
	if ms%dayMs == 0 {
		return at.Format(time.DateOnly)
	}
	return at.Format("2006-01-02 15:04:05")
}
