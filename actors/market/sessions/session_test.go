package sessions

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// The days are those that the exchange has announced.
func TestExchangeHolidays(t *testing.T) {
	t.Parallel()
	closed := map[int][]string{
		2024: {"01-01", "01-15", "02-19", "03-29", "05-27", "06-19", "07-04", "09-02", "11-28", "12-25"},
		2025: {"01-01", "01-09", "01-20", "02-17", "04-18", "05-26", "06-19", "07-04", "09-01", "11-27", "12-25"},
		2026: {"01-01", "01-19", "02-16", "04-03", "05-25", "06-19", "07-03", "09-07", "11-26", "12-25"},
		2027: {"01-01", "01-18", "02-15", "03-26", "05-31", "06-18", "07-05", "09-06", "11-25", "12-24"},
		2028: {"01-17", "02-21", "04-14", "05-29", "06-19", "07-04", "09-04", "11-23", "12-25"},
	}
	short := map[int][]string{
		2024: {"07-03", "11-29", "12-24"}, 2025: {"07-03", "11-28", "12-24"}, 2026: {"11-27", "12-24"}, 2027: {"11-26"},
		2028: {"07-03", "11-24"},
	}
	for year := range closed {
		want := make(map[string]string)
		for _, d := range closed[year] {
			want[d] = "closed"
		}
		for _, d := range short[year] {
			want[d] = "short"
		}
		for day := time.Date(year, 1, 1, 12, 0, 0, 0, newYork()); day.Year() == year; day = day.AddDate(0, 0, 1) {
			got := ""
			y, m, d := day.Date()
			opens, closes, ok := Exchange.day(date{y, m, d})
			switch weekend := day.Weekday() == time.Saturday || day.Weekday() == time.Sunday; {
			case weekend && ok:
				t.Errorf("%s is a trading day", day)
			case weekend:
				continue
			case !ok:
				got = "closed"
			case closes.Sub(opens) == 3*time.Hour+30*time.Minute:
				got = "short"
			case closes.Sub(opens) != 6*time.Hour+30*time.Minute:
				t.Errorf("%s is open for %s", day, closes.Sub(opens))
			}
			if name := day.Format("01-02"); want[name] != got {
				t.Errorf("%d-%s is %q, want %q", year, name, got, want[name])
			}
		}
	}
}

func TestSessionsOpenAndClose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session Session
		at      string
		open    bool
		next    string
	}{
		{Always, "2026-07-04T12:00:00Z", true, "2026-07-04T12:00:00Z"},
		{Exchange, "2026-11-20T14:29:59Z", false, "2026-11-20T14:30:00Z"},
		{Exchange, "2026-11-20T14:30:00Z", true, "2026-11-20T14:30:00Z"},
		{Exchange, "2026-11-20T20:59:59Z", true, "2026-11-20T20:59:59Z"},
		{Exchange, "2026-11-20T21:00:00Z", false, "2026-11-23T14:30:00Z"},
		{Exchange, "2026-07-02T13:30:00Z", true, "2026-07-02T13:30:00Z"}, // summer time
		{Exchange, "2026-07-02T20:00:00Z", false, "2026-07-06T13:30:00Z"},
		{Exchange, "2026-11-26T15:00:00Z", false, "2026-11-27T14:30:00Z"},
		{Exchange, "2026-11-27T18:00:00Z", false, "2026-11-30T14:30:00Z"},
		{Exchange, "2026-11-23T02:00:00Z", false, "2026-11-23T14:30:00Z"}, // Sunday evening in New York
		{Currencies, "2026-11-20T21:59:59Z", true, "2026-11-20T21:59:59Z"},
		{Currencies, "2026-11-20T22:00:00Z", false, "2026-11-22T22:00:00Z"},
		{Currencies, "2026-11-21T12:00:00Z", false, "2026-11-22T22:00:00Z"},
		{Currencies, "2026-11-22T21:59:59Z", false, "2026-11-22T22:00:00Z"},
		{Currencies, "2026-11-22T22:00:00Z", true, "2026-11-22T22:00:00Z"},
		{Currencies, "2026-11-23T00:00:00Z", true, "2026-11-23T00:00:00Z"},
		{Currencies, "2026-07-03T20:59:59Z", true, "2026-07-03T20:59:59Z"}, // summer time
		{Currencies, "2026-07-03T21:00:00Z", false, "2026-07-05T21:00:00Z"},
		{Currencies, "2026-07-01T21:00:00Z", true, "2026-07-01T21:00:00Z"},
		{Currencies, "2026-12-24T22:00:00Z", false, "2026-12-27T22:00:00Z"}, // Christmas, then a weekend
		{Currencies, "2024-12-24T21:59:59Z", true, "2024-12-24T21:59:59Z"},
		{Currencies, "2024-12-25T12:00:00Z", false, "2024-12-25T22:00:00Z"},
		{Currencies, "2022-12-25T23:00:00Z", false, "2022-12-26T22:00:00Z"}, // on a Sunday
		{Currencies, "2025-12-31T22:00:00Z", false, "2026-01-01T22:00:00Z"},
		{Metals, "2026-07-01T21:00:00Z", false, "2026-07-01T22:00:00Z"}, // the daily rest
		{Metals, "2026-11-18T21:59:59Z", true, "2026-11-18T21:59:59Z"},
		{Metals, "2026-11-18T22:30:00Z", false, "2026-11-18T23:00:00Z"},
		{Metals, "2026-11-20T22:00:00Z", false, "2026-11-22T23:00:00Z"},
		{Metals, "2026-11-26T17:59:59Z", true, "2026-11-26T17:59:59Z"}, // Thanksgiving
		{Metals, "2026-11-26T18:00:00Z", false, "2026-11-26T23:00:00Z"},
		{Metals, "2026-11-27T18:45:00Z", false, "2026-11-29T23:00:00Z"},
		{Metals, "2026-04-03T12:00:00Z", false, "2026-04-05T22:00:00Z"}, // Good Friday
		{Metals, "2024-07-03T18:00:00Z", true, "2024-07-03T18:00:00Z"},
		{Metals, "2025-01-09T18:00:00Z", true, "2025-01-09T18:00:00Z"}, // a closure of the exchange alone
	} {
		when := markettest.Instant(t, c.at)
		open, next := c.session.Open(when), c.session.Next(when)
		if open != c.open || !next.Equal(markettest.Instant(t, c.next)) {
			t.Errorf("session %d at %s: open %t, next %s; want %t, %s", c.session, c.at, open, next, c.open, c.next)
		}
	}
}

func TestTimeCountsInSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session Session
		from    string
		d       time.Duration
		to      string
	}{
		{Always, "2026-11-20T20:00:00Z", 24 * time.Hour, "2026-11-21T20:00:00Z"},
		{Exchange, "2026-11-20T20:00:00Z", time.Hour, "2026-11-20T21:00:00Z"},
		{Exchange, "2026-11-20T20:00:00Z", 2 * time.Hour, "2026-11-23T15:30:00Z"},
		{Exchange, "2026-11-25T20:30:00Z", 24 * time.Hour, "2026-12-03T15:00:00Z"}, // over a holiday and a short day
		{Exchange, "2026-11-21T12:00:00Z", time.Hour, "2026-11-23T15:30:00Z"},
		{Currencies, "2026-11-20T21:00:00Z", 2 * time.Hour, "2026-11-22T23:00:00Z"},
		{Currencies, "2026-11-16T10:00:00Z", 48 * time.Hour, "2026-11-18T10:00:00Z"},
		{Metals, "2026-11-16T10:00:00Z", 46 * time.Hour, "2026-11-18T10:00:00Z"},
	} {
		from, to := markettest.Instant(t, c.from), markettest.Instant(t, c.to)
		if got := c.session.After(from, c.d); !got.Equal(to) {
			t.Errorf("session %d: %s after %s is %s, want %s", c.session, c.d, c.from, got, c.to)
		}
		if got := c.session.Between(from, to); got != c.d {
			t.Errorf("session %d: from %s to %s are %s, want %s", c.session, c.from, c.to, got, c.d)
		}
	}
}

func TestADailyBarIsASession(t *testing.T) {
	t.Parallel()
	for s, want := range map[Session]time.Duration{Always: 48 * time.Hour, Exchange: 13 * time.Hour, Currencies: 48 * time.Hour,
		Metals: 46 * time.Hour} {
		if got := s.Lasting(48*time.Hour, signal.D1); got != want {
			t.Errorf("session %d: two daily bars last %s, want %s", s, got, want)
		}
		if got := s.Lasting(48*time.Hour, signal.H1); got != 48*time.Hour {
			t.Errorf("session %d: 48 bars last %s", s, got)
		}
	}
}

func TestBetweenReversesAfter(t *testing.T) {
	t.Parallel()
	start := markettest.Instant(t, "2026-01-01T00:00:00Z")
	for _, s := range []Session{Always, Exchange, Currencies, Metals} {
		for i := range 400 {
			from := start.Add(time.Duration(i) * 17 * time.Hour)
			d := time.Duration(i%50+1) * 37 * time.Minute
			if got := s.Between(from, s.After(from, d)); got != d {
				t.Fatalf("session %d, from %s, %s: %s", s, from, d, got)
			}
		}
	}
}
