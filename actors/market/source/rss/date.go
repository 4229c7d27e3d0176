package rss

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// zones are the names of zones in dates, by their minutes east of Greenwich. time.Parse would take those that it does
// not know for UTC. Some names have several meanings: those of RFC 822 are North American (CST is not China's, EST not
// Australia's, AST not Arabia's), and of the others BST is British Summer Time and IST India's, not Ireland's or
// Israel's.
var zones = map[string]int{
	"Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 60, "BST": 60,
	"EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
	"AKST": -540, "AKDT": -480, "HST": -600, "AST": -240, "ADT": -180, "NST": -210, "NDT": -150, "BRT": -180, "ART": -180,
	"CET": 60, "CEST": 120, "MEZ": 60, "MESZ": 120, "EET": 120, "EEST": 180, "SAST": 120, "EAT": 180, "MSK": 180, "TRT": 180,
	"GST": 240, "PKT": 300, "IST": 330, "WIB": 420, "ICT": 420, "SGT": 480, "HKT": 480, "PHT": 480, "AWST": 480,
	"JST": 540, "KST": 540, "ACST": 570, "ACDT": 630, "AEST": 600, "AEDT": 660, "NZST": 720, "NZDT": 780,
}

// The layouts of what dateOf has found in a text. Those with a number for the month may fit both ways.
var (
	dateLayouts = []string{"2 Jan 2006", "Jan 2 2006", "2006 Jan 2", "2 Jan 06", "2006-1-2", "2006/1/2", "20060102",
		"2.1.2006", "2/1/2006", "1/2/2006", "2-1-2006", "1-2-2006"}
	clockLayouts = []string{"15:04", "15:04:05", "3:04 PM", "3:04:05 PM"}
)

var (
	comments = regexp.MustCompile(`\([^)]*\)`)
	isoT     = regexp.MustCompile(`(\d)[Tt](\d)`)
	clocks   = regexp.MustCompile(`^(\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?)(.*)$`)
	offsets  = regexp.MustCompile(`^(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?$`)
	ordinals = regexp.MustCompile(`^(\d{1,2})(?:ST|ND|RD|TH)$`)
	weekdays = []string{"MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"}
	months   = []string{"JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER",
		"NOVEMBER", "DECEMBER"}
)

// dateOf returns the time that a text means. Its parts may come in any order. Without a zone it is UTC, without a clock
// the beginning of the day. It returns false for a zone that is not known, and for days such as 3/4/2025, which are
// of April in some countries and of March in others.
func dateOf(text string) (time.Time, bool) {
	text = strings.ReplaceAll(comments.ReplaceAllString(isoT.ReplaceAllString(text, "$1 $2"), " "), ",", " ")
	fields := strings.Fields(strings.ToUpper(text))
	var date []string
	clock, half, east := "", "", 0
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		offset, known := offsetOf(f)
		switch {
		case clock != "" && known: // not the end of a date
			east = offset
		case isClock(f) && clock == "":
			m := clocks.FindStringSubmatch(f)
			if clock = m[1]; m[2] != "" {
				fields = slices.Insert(fields, i+1, m[2])
			}
		case half == "" && slices.Contains([]string{"AM", "PM", "A.M.", "P.M."}, f):
			half = " " + strings.ReplaceAll(f, ".", "")
		case isName(f, weekdays) || f == "AT" || f == "-" || f == "OF":
		case isName(f, months) || f == "SEPT":
			date = append(date, f[:1]+strings.ToLower(f[1:3]))
		case known && len(date) > 0: // a zone before the clock
			east = offset
		case ordinals.MatchString(f):
			date = append(date, ordinals.FindStringSubmatch(f)[1])
		default:
			date = append(date, splitDate(f)...)
		}
	}
	day, ok := parseOne(strings.Join(date, " "), dateLayouts)
	if !ok || day.Year() < 1970 {
		return time.Time{}, false
	}
	if clock != "" {
		at, ok := parseOne(clock+half, clockLayouts)
		if !ok {
			return time.Time{}, false
		}
		day = day.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute +
			time.Duration(at.Second())*time.Second + time.Duration(at.Nanosecond()))
	}
	return day.Add(-time.Duration(east) * time.Minute), true
}

func isClock(field string) bool { return clocks.MatchString(field) }

// isName reports whether a field is one of some names, or at least the first three letters of one.
func isName(field string, names []string) bool {
	field = strings.TrimSuffix(field, ".")
	return len(field) >= 3 && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, field) })
}

// splitDate splits a field such as 22-JAN-2025 with the name of a month.
func splitDate(field string) []string {
	parts := strings.Split(field, "-")
	if len(parts) != 3 || !isName(parts[1], months) {
		return []string{field}
	}
	return []string{parts[0], parts[1][:1] + strings.ToLower(parts[1][1:3]), parts[2]}
}

// offsetOf returns the minutes east of Greenwich of a zone, +0300, GMT-7 or EST.
func offsetOf(field string) (int, bool) {
	if m := offsets.FindStringSubmatch(field); m != nil {
		hours, minutes := m[2], m[3]
		h, _ := strconv.Atoi(hours)
		n, _ := strconv.Atoi("0" + minutes)
		if h > 14 || n > 59 {
			return 0, false
		}
		if n += 60 * h; m[1] == "-" {
			n = -n
		}
		return n, true
	}
	n, ok := zones[field]
	return n, ok
}

// parseOne returns the time of the layouts that a text has, or false if they mean different ones.
func parseOne(text string, layouts []string) (found time.Time, ok bool) {
	for _, layout := range layouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if ok && !t.Equal(found) {
			return time.Time{}, false
		}
		found, ok = t, true
	}
	return found, ok
}
