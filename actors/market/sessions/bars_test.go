package sessions

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAYearOfRealBars compares the sessions of 2017 with the hours of which real sources have bars. What differs is listed, with
// the first hour by the clock of New York and the number of hours that are open and have no bar, or the reverse.
func TestAYearOfRealBars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file    string
		session Session
		sundays int // in summer, of which the source lacks the first hour: it begins all weeks at 23:00 UTC
		differs []string
	}{
		{file: "spy.txt", session: Exchange},
		{file: "eurusd.txt", session: Currencies, differs: []string{
			"Fri 03-31 00: 17 without bars", "Fri 10-06 00: 17 without bars", // the source lacks two days
			"Mon 01-02 17: 1 without bars", "Mon 12-25 17: 2 without bars"}}, // and comes back late from holidays
		{file: "xauusd.txt", session: Metals, sundays: 34, differs: []string{"Fri 06-30 17: 1 with bars",
			"Mon 01-30 19: 23 without bars", "Tue 02-07 19: 23 without bars", "Tue 09-26 20: 23 without bars",
			"Wed 07-12 20: 23 without bars"}},
	} {
		gaps := readGaps(t, "testdata/"+c.file)
		var differs []string
		first, how, n, sundays := "", "", 0, 0
		var last time.Time // that differs
		end := func() {
			if n > 0 {
				differs = append(differs, fmt.Sprintf("%s: %d %s bars", first, n, how))
			}
			n = 0
		}
		for at := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2017; at = at.Add(time.Hour) {
			is, hour := "with", at.In(newYork())
			if slices.ContainsFunc(gaps, func(g gap) bool { return !at.Before(g.from) && at.Before(g.to) }) {
				is = "without"
			}
			switch open := c.session.Between(at, at.Add(time.Hour)) > 0; {
			case open == (is == "with"):
				continue
			case c.sundays > 0 && is == "without" && hour.IsDST() && hour.Format("Mon 15") == "Sun 18":
				sundays++
				continue
			}
			if is != how || at.Sub(last) > 2*time.Hour { // a rest of an hour is no end
				end()
				first, how = hour.Format("Mon 01-02 15"), is
			}
			n, last = n+1, at
		}
		end()
		slices.Sort(differs)
		if !slices.Equal(differs, c.differs) || sundays != c.sundays {
			t.Errorf("%s differs, and on %d Sundays:\n%q", c.file, sundays, differs)
		}
	}
}

// gap is a time without bars.
type gap struct{ from, to time.Time }

func readGaps(t *testing.T, file string) (list []gap) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		from, to, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || from == "#" {
			continue
		}
		a, err := time.Parse("2006-01-02T15", from)
		b, err2 := time.Parse("2006-01-02T15", to)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		list = append(list, gap{a, b})
	}
	return list
}
