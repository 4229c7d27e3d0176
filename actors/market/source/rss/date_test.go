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
		"20250122T110509Z":                              {}, // the clock has no colons
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
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := dateOf(text); ok == at.IsZero() {
			t.Errorf("%v, %v", at, ok)
		}
	})
}
