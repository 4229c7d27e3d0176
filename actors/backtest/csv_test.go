package backtest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

func TestReadCSVFormats(t *testing.T) {
	t.Parallel()
	const first = 1_795_251_600_000 // 2026-11-21T09:00:00Z
	want := []marketdata.Bar{
		{OpenTime: first, CloseTime: first + hour, Open: 1.5, High: 2, Low: 1, Close: 1.75, Volume: 10},
		{OpenTime: first + hour, CloseTime: first + 2*hour, Open: 1.75, High: 3, Low: 1.75, Close: 2.5, Volume: 0.5},
	}
	for name, text := range map[string]string{
		"milliseconds": "open_time,open,high,low,close,volume\n1795251600000,1.5,2,1,1.75,10\n" +
			"1795255200000,1.75,3,1.75,2.5,0.5\n",
		"seconds": "time,open,high,low,close,volume\n1795251600,1.5,2,1,1.75,10\n1795255200,1.75,3,1.75,2.5,5e-1",
		"RFC 3339": "timestamp,open,high,low,close,volume\n2026-11-21T09:00:00Z,1.5,2,1,1.75,10\n" +
			"2026-11-21T12:00:00+02:00,1.75,3,1.75,2.5,0.5\n",
		"without offset": "Date,Open,High,Low,Close,Volume\r\n2026-11-21 09:00:00,1.5,2,1,1.75,10\r\n" +
			"2026-11-21 10:00,1.75,3,1.75,2.5,.5\r\n",
		"other columns": "\ufeff\"close\", trades ,low,high,open,vol,time\n1.75,7,1,2,1.5,10,1795251600000\n" +
			"2.5,9,1.75,3,1.75,0.5,1795255200000\n",
		"a line corrected": "time,open,high,low,close,volume\n1795251600,9,9,9,9,9\n1795251600,1.5,2,1,1.75,10\n" +
			"1795255200,1.75,3,1.75,2.5,0.5\n",
	} {
		got, err := ReadCSV(strings.NewReader(text), signal.H1)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	const days = "date,open,high,low,close\n2026-11-20,1,2,1,2\n2026-11-21,2,2,2,2\n"
	got, err := ReadCSV(strings.NewReader(days), signal.D1)
	if err != nil || len(got) != 2 || got[1].OpenTime-got[0].OpenTime != 24*hour || got[0].Volume != 0 {
		t.Errorf("dates without volume: %+v, %v", got, err)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	const head = "time,open,high,low,close,volume\n"
	const good = "1795251600,1,2,1,2,3\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1: the file is empty"},
		{"no names", "1795251600,1,2,1,2,3\n", "line 1: there is no column time"},
		{"no close", "time,open,high,low\n", "line 1: there is no column close (may be named close, c)"},
		{"twice", "time,open,high,low,close,date\n", "line 1: there are two columns time"},
		{"no time", head + good + "soon,1,2,1,2,3\n", `line 3: time "soon" is not valid`},
		{"time of another century", head + "17952516000000000,1,2,1,2,3\n", "line 2: time"},
		{"no number", head + "1795251600,1,2,1,two,3\n", `line 2: close "two" is not a number`},
		{"not a number", head + "1795251600,NaN,2,1,2,3\n", `line 2: open "NaN" is not a number`},
		{"hexadecimal", head + "1795251600,0x1p3,9,1,2,3\n", `line 2: open "0x1p3" is not a number`},
		{"too large", head + "1795251600,1e999,9,1,2,3\n", `line 2: open "1e999" is not a number`},
		{"negative", head + "1795251600,-1,2,1,2,3\n", "line 2: price -1"},
		{"negative volume", head + "1795251600,1,2,1,2,-3\n", "line 2: volume -3"},
		{"high below", head + "1795251600,1,1.5,1,2,3\n", "line 2: high 1.5 below open or close"},
		{"short line", head + "1795251600,1,2,1\n", "line 2: there are 4 values: column "},
		{"older", head + "1795255200,1,2,1,2,3\n" + good,
			"line 3: the bar opens at 2026-11-21T09:00:00Z, before the one above it"},
		{"too near", head + good + "1795251660,1,2,1,2,3\n",
			"line 3: the bar opens at 2026-11-21T09:01:00Z, before the one above it closes"},
		{"days", head + good + "1795338000,1,2,1,2,3\n1795597200,1,2,1,2,3\n",
			"the bars are longer than 1h: no two of them open less than 24h apart"},
		{"quotes", head + "\"1795251600,1,2,1,2,3\n", "line 2: "},
	} {
		bars, err := ReadCSV(strings.NewReader(c.text), signal.H1)
		if _, ok := errors.AsType[*FileError](err); !ok || bars != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	var many strings.Builder
	many.WriteString(head)
	for range 25 {
		many.WriteString("x,1,2,1,2,3\n")
	}
	_, err := ReadCSV(strings.NewReader(many.String()), signal.H1)
	if lines := strings.Split(fmt.Sprint(err), "\n"); len(lines) != maxFaults+1 || lines[maxFaults] != "and 15 more" {
		t.Errorf("25 bad lines are reported as: %v", err)
	}
	broken := errors.New("disk failure")
	_, err = ReadCSV(io.MultiReader(strings.NewReader(head), iotest.ErrReader(broken)), signal.H1)
	if !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func FuzzReadCSV(f *testing.F) {
	for _, text := range []string{"", "time,open,high,low,close\n1795251600,1,2,1,2\n", "t,o,h,l,c\n",
		"date,o,h,l,c,v\n2026-11-21,1,2,1,2,\n2026-11-22,\"1\",2,1,2,1e3\n",
		"time,open,high,low,close\n\"a\nb\",1,2,1,2\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bars, err := ReadCSV(strings.NewReader(text), signal.H1)
		if err != nil && (bars != nil || len(err.Error()) > 10_000) {
			t.Errorf("%d bars with an error of %d bytes", len(bars), len(err.Error()))
		}
		for i, b := range bars {
			if strategy.CheckBar(b) != nil || i > 0 && b.OpenTime < bars[i-1].CloseTime {
				t.Errorf("bar %d is %+v", i, b)
			}
		}
	})
}
