package rss

import (
	"testing"
	"time"
)

// TestDatesOfFeedsAreRead has forms that feeds use, for the same moment where they have all of it.
func TestDatesOfFeedsAreRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 22, 11, 5, 9, 0, time.UTC)
	minute, day := at.Truncate(time.Minute), at.Truncate(24*time.Hour)
	for text, want := range map[string]time.Time{
		"Wed, 22 Jan 2025 11:05:09 GMT":                 at, // RFC 822, as RSS demands
		"Wed, 22 Jan 2025 11:05:09 +0000":               at,
		"Wed, 22 Jan 2025 11:05:09 Z":                   at,
		"Wed, 22 Jan 2025 12:05:09 +01:00":              at,
		"Wed, 22 Jan 2025 04:05:09 -0700 (MST)":         at,
		"Wed, 22 Jan 25 11:05:09 GMT":                   at,
		"22 Jan 2025 11:05:09 UT":                       at,
		"Wednesday, 22-Jan-25 11:05:09 GMT":             at, // RFC 850
		"Wed Jan 22 11:05:09 2025":                      at, // C
		"Wed Jan 22 06:05:09 EST 2025":                  at, // date(1)
		"Wed Jan 22 06:05:09 -0500 2025":                at,
		"2025-01-22T11:05:09Z":                          at, // RFC 3339, as Atom demands
		"2025-01-22T11:05:09.000+00:00":                 at,
		"2025-01-22t12:05:09+0100":                      at,
		"2025-01-22 11:05:09":                           at,
		"2025-01-22 11:05:09 UTC":                       at,
		"2025/01/22 11:05:09":                           at,
		"20250122T110509Z":                              at, // ISO 8601, basic
		"20250122T060509-0500":                          at,
		"20250122110509":                                at,
		"1737543909":                                    at, // since 1970
		"1737543909000":                                 at,
		"2025-01-22T06:05:09-05:00[America/New_York]":   at,
		"Wed, 22 Jan 2025 06:05:09 \u22120500":          at, // a minus sign
		"2025年1月22日 11:05":                              minute,
		"mer., 22 janv. 2025 11:05:09 +0000":            at, // other languages
		"mié, 22 ene 2025 11:05:09 GMT":                 at,
		"Mi, 22 Jan 2025 11:05:09 GMT":                  at,
		"22. Januar 2025, 11:05 Uhr":                    minute,
		"22 de enero de 2025 11:05":                     minute,
		"mar., 22 juil. 2025 11:05":                     time.Date(2025, 7, 22, 11, 5, 0, 0, time.UTC),
		"22 jui 2025 11:05":                             {}, // of June or of July
		"Jan 22, 2025 | 6:05 AM ET":                     minute,
		"Jan 22, 2025 3:05 AM PT":                       minute,
		"Jul 22, 2025 7:05 AM ET":                       time.Date(2025, 7, 22, 11, 5, 0, 0, time.UTC),
		"1/22/25 11:05 AM":                              minute,
		"22/01/25 11:05":                                {}, // of 2025 or of 2022
		"Wed, 22 Jan 2025 06:05:09 -0500 EST":           at,
		"Wed, 22 Jan 2025 14:05:09 GMT +0300":           at,
		"Wed, 22 Jan 2025 11:05:09 +0100 EST":           {}, // two zones
		"Wed, Jan 22 2025 04:05:09 MST":                 at,
		"WED,22 JAN 2025 11:05:09":                      at,
		"Wed Jan 22 2025 11:05:09 GMT+0000 (Greenwich)": at, // JavaScript
		"Wed, 22 January 2025 11:05:09 AM":              at,
		"Wed, 22 Jan 2025 11:05 AM":                     minute,
		"Wed, 22 Jan 2025, 11:05":                       minute,
		"January 22nd, 2025 at 11:05 a.m.":              minute,
		"Jan. 22, 2025 11:05AM":                         minute,
		"22.01.2025 11:05":                              minute,
		"22/01/2025 - 11:05":                            minute,
		"01/22/2025 11:05 AM":                           minute,
		"22.01.2025":                                    day,
		"2025-01-22":                                    day,
		"Wed, 22 Jan 2025":                              day,
		"January 22, 2025":                              day,
		"Thu, 18 Sept 2025 15:53:56 +0300":              time.Date(2025, 9, 18, 12, 53, 56, 0, time.UTC),
		"Sun, 15 Dec 2024 12:15 PM":                     time.Date(2024, 12, 15, 12, 15, 0, 0, time.UTC),
		"Sun, 15 Dec 2024 12:15 AM":                     time.Date(2024, 12, 15, 0, 15, 0, 0, time.UTC),
		"Wed, 22 Jan 2025 14:05:09 MSK":                 at, // zones by name
		"Wed, 22 Jan 2025 14:05:09 GMT+3":               at,
		"Wed, 22 Jan 2025 12:05:09 CET":                 at,
		"Wed, 22 Jan 2025 03:05:09 PST":                 at,
		"Wed, 22 Jan 2025 05:05:09 CST":                 at,
		"Wed, 22 Jan 2025 16:35:09 IST":                 at,
		"Wed, 22 Jan 2025 20:05:09 JST":                 at,
		"Wed, 22 Jan 2025 22:05:09 AEDT":                at,
		"Tue, 22 Jul 2025 07:05:09 EDT":                 time.Date(2025, 7, 22, 11, 5, 9, 0, time.UTC),
		"Wed, 22 Jan 2025 11:05:09 XYZT":                {}, // nothing knows this zone
		"Wed, 22 Jan 2025 11:05:09 +9900":               {},
		"03/04/2025 11:05":                              {}, // of March or of April
		"04/04/2025":                                    time.Date(2025, 4, 4, 0, 0, 0, 0, time.UTC),
		"Wed, 22 Jan 11:05:09 GMT":                      {}, // of which year?
		"Wed, 32 Jan 2025 11:05:09 GMT":                 {},
		"Wed, 22 Jan 2025 25:05:09 GMT":                 {},
		"0001-01-01T00:00:00Z":                          {},
		"yesterday":                                     {},
		"":                                              {},
	} {
		got, ok := dateOf(text)
		if !got.Equal(want) || ok == want.IsZero() {
			t.Errorf("%q is %v, %v; want %v", text, got, ok, want)
		}
	}
}

func FuzzDate(f *testing.F) {
	f.Add("Wed, 22 Jan 2025 11:05:09 GMT")
	f.Add("January 22nd, 2025 at 11:05PM-0700 (x)")
	f.Add("2025-01-22T11:05:09.5+01:00")
	f.Add("mar., 22 juil. 2025 | 6:05 ET")
	f.Add("20250122T110509Z")
	f.Add("1737543909")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := dateOf(text); ok == at.IsZero() {
			t.Errorf("%v, %v", at, ok)
		}
	})
}

// FuzzDateOfLayout checks that dates as programs print them are the moments that were printed.
func FuzzDateOfLayout(f *testing.F) {
	f.Add(int64(1737543909), 0, 0)
	f.Add(int64(1752000000), 3, -300)
	f.Fuzz(func(t *testing.T, second int64, layout, east int) {
		const last = 4102444800 // 2100
		layouts := []string{time.RFC1123Z, time.RFC822Z, time.RFC3339, time.RubyDate, "20060102T150405-0700",
			"January 2, 2006 3:04:05 PM -0700", "2.1.2006 15:04:05 -07:00"}
		second, layout, east = (second%last+last)%last+86_400, (layout%7+7)%7, east%(14*60)
		at := time.Unix(second, 0).In(time.FixedZone("", east*60))
		if layouts[layout] == time.RFC822Z { // whose years 69 to 99 are of the last century, and which has no seconds
			at = at.Truncate(time.Minute)
			if at.Year() < 1971 || at.Year() > 2068 {
				t.Skip()
			}
		}
		text := at.Format(layouts[layout])
		if got, ok := dateOf(text); !ok || !got.Equal(at) {
			t.Errorf("%q is %v, %v; want %v", text, got, ok, at)
		}
	})
}
