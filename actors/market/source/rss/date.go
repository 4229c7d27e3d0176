package rss

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for images without a time zone database
	"unicode/utf8"
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

// newYork gives the offset of ET, which American feeds write in summer and winter; the others have the same days.
var newYork, _ = time.LoadLocation("America/New_York")

// behindNewYork are the names of American zones that do not tell summer time, by their minutes behind New York.
var behindNewYork = map[string]int{"ET": 0, "CT": 60, "MT": 120, "PT": 180}

// The layouts of what dateOf has found in a text. Those with a number for the month may fit in several ways.
var (
	dateLayouts = []string{"2 Jan 2006", "Jan 2 2006", "2006 Jan 2", "2 Jan 06", "2006-1-2", "2006/1/2", "20060102",
		"2006 1 2", "2.1.2006", "2/1/2006", "1/2/2006", "2-1-2006", "1-2-2006", "2.1.06", "2/1/06", "1/2/06", "06/1/2"}
	clockLayouts = []string{"15:04", "15:04:05", "3:04 PM", "3:04:05 PM"}
)

var (
	comments = regexp.MustCompile(`\([^)]*\)|\[[^\]]*\]`)
	isoT     = regexp.MustCompile(`(\d)[Tt](\d)`)
	epochs   = regexp.MustCompile(`^\d{10}(?:\d{3})?$`)
	compact  = regexp.MustCompile(`^(\d{4})(\d\d)(\d\d)[Tt]?(\d\d)(\d\d)(\d\d)?(Z|[+-]\d{4})?$`)
	clocks   = regexp.MustCompile(`^(\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?)(.*)$`)
	offsets  = regexp.MustCompile(`^(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?$`)
	ordinals = regexp.MustCompile(`^(\d{1,2})(?:ST|ND|RD|TH|\.)$`)
	words    = regexp.MustCompile(`^\pL+\.?$`)
)

// signs replaces characters that stand for others in dates.
var signs = strings.NewReplacer(",", " ", "|", " ", "\u2212", "-", "年", "-", "月", "-", "日", " ")

// months are the names of the months in languages of feeds, January first.
var months = [12][]string{
	{"JANUARY", "JANVIER", "ENERO", "GENNAIO", "JANEIRO"}, {"FEBRUARY", "FEBRERO", "FÉVRIER", "FEBBRAIO", "FEVEREIRO"},
	{"MARCH", "MARZO", "MARS", "MARÇO", "MÄRZ", "MRZ", "MAART"}, {"APRIL", "AVRIL", "ABRIL"},
	{"MAY", "MAI", "MAYO", "MAGGIO", "MAIO", "MEI"}, {"JUNE", "JUNI", "JUIN", "JUNIO", "JUNHO", "GIUGNO"},
	{"JULY", "JULI", "JUILLET", "JULIO", "JULHO", "LUGLIO"}, {"AUGUST", "AOÛT", "AGOSTO", "AUGUSTUS"},
	{"SEPTEMBER", "SEPTIEMBRE", "SETTEMBRE", "SETEMBRO"}, {"OCTOBER", "OKTOBER", "OCTUBRE", "OTTOBRE", "OUTUBRO"},
	{"NOVEMBER", "NOVIEMBRE"}, {"DECEMBER", "DEZEMBER", "DÉCEMBRE", "DICIEMBRE", "DEZEMBRO"},
}

// between are words that stand between the parts of dates.
var between = []string{"AT", "-", "OF", "DE", "DEL", "UM", "UHR", "ALLE"}

// dateOf returns the time that a text means: of its parts in any order, or of the seconds or milliseconds since 1970. Without
// a zone it is UTC, without a clock the beginning of the day. It returns false for a zone that is not known, for two that
// differ, and for days such as 3/4/2025, which are of April in some countries and of March in others.
func dateOf(text string) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if epochs.MatchString(text) {
		n, err := strconv.ParseInt((text + "000")[:13], 10, 64)
		return time.UnixMilli(n).UTC(), err == nil
	}
	if m := compact.FindStringSubmatch(text); m != nil {
		text = m[1] + "-" + m[2] + "-" + m[3] + " " + m[4] + ":" + m[5] + ":" + cmp.Or(m[6], "00") + m[7]
	}
	fields := strings.Fields(strings.ToUpper(signs.Replace(comments.ReplaceAllString(isoT.ReplaceAllString(text, "$1 $2"), " "))))
	var date []string
	clock, half, zone := "", "", ""
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		month := monthOf(f)
		switch {
		case isZone(f) && (clock != "" || len(date) > 0): // not the end of a date
			switch {
			case zone == "" || greenwich(zone):
				zone = f
			case !greenwich(f) && !sameZone(zone, f):
				return time.Time{}, false
			}
		case clock == "" && clocks.MatchString(f):
			m := clocks.FindStringSubmatch(f)
			if clock = m[1]; m[2] != "" {
				fields = slices.Insert(fields, i+1, m[2])
			}
		case half == "" && slices.Contains([]string{"AM", "PM", "A.M.", "P.M."}, f):
			half = " " + strings.ReplaceAll(f, ".", "")
		case month != "":
			if len(date) > 0 && words.MatchString(date[0]) {
				date = date[1:] // "mar." was no month, but a Tuesday
			}
			date = append(date, month)
		case i == 0 && words.MatchString(f), slices.Contains(between, f), isWeekday(f): // the day of the week, in any language
		case ordinals.MatchString(f):
			date = append(date, ordinals.FindStringSubmatch(f)[1])
		default:
			date = append(date, splitDate(f)...)
		}
	}
	day, ok := parseOne(strings.TrimSuffix(strings.Join(date, " "), "."), dateLayouts)
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
	return day.Add(-time.Duration(offsetOf(zone, day)) * time.Minute), true
}

// monthOf returns the English abbreviation of the one month that a field names by at least three letters, or "".
func monthOf(field string) (found string) {
	field = strings.TrimSuffix(field, ".")
	if utf8.RuneCountInString(field) < 3 {
		return ""
	}
	for i, names := range months {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, field) }) {
			if found != "" {
				return "" // such as "jui"
			}
			found = time.Month(i + 1).String()[:3]
		}
	}
	return found
}

// isWeekday reports whether a field is at least the first three letters of a day of the week.
func isWeekday(field string) bool {
	field = strings.TrimSuffix(field, ".")
	for d := range time.Saturday + 1 {
		if len(field) >= 3 && strings.HasPrefix(strings.ToUpper(d.String()), field) {
			return true
		}
	}
	return false
}

// splitDate splits a field such as 22-JAN-2025 with the name of a month.
func splitDate(field string) []string {
	parts := strings.Split(field, "-")
	if len(parts) != 3 || monthOf(parts[1]) == "" {
		return []string{field}
	}
	return []string{parts[0], monthOf(parts[1]), parts[2]}
}

// isZone reports whether a field is a zone, such as +0300, GMT-7, EST or ET.
func isZone(field string) bool {
	if m := offsets.FindStringSubmatch(field); m != nil {
		h, _ := strconv.Atoi(m[2])
		return h <= 14 && m[3] < "60"
	}
	_, fixed := zones[field]
	_, american := behindNewYork[field]
	return fixed || american
}

// greenwich reports whether a zone is a name for UTC, which another zone behind it makes precise, as in GMT +0300.
func greenwich(zone string) bool { return slices.Contains([]string{"Z", "UT", "UTC", "GMT"}, zone) }

// sameZone reports whether two zones may be one, such as -0500 and EST.
func sameZone(a, b string) bool {
	winter, summer := time.Unix(0, 0), time.Unix(0, 0).AddDate(0, 6, 0)
	return offsetOf(a, winter) == offsetOf(b, winter) || offsetOf(a, summer) == offsetOf(b, summer)
}

// offsetOf returns the minutes east of Greenwich of a zone at a time of its clock. No zone is UTC.
func offsetOf(zone string, clock time.Time) int {
	if m := offsets.FindStringSubmatch(zone); m != nil {
		h, _ := strconv.Atoi(m[2])
		n, _ := strconv.Atoi("0" + m[3])
		if n += 60 * h; m[1] == "-" {
			n = -n
		}
		return n
	}
	if behind, ok := behindNewYork[zone]; ok {
		y, m, d := clock.Date()
		_, east := time.Date(y, m, d, clock.Hour(), clock.Minute(), 0, 0, newYork).Zone()
		return east/60 - behind
	}
	return zones[zone]
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
