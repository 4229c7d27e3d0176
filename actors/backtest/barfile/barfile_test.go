package barfile

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const head = "time,open,high,low,close,volume\n"

// days returns rows of n days from 2024-01-01; change may replace the row of a day, empty leaves it out.
func days(n int, change map[int]string) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		row, ok := change[i]
		if !ok {
			row = fmt.Sprintf("%s,%d,%d,%d,%d,7\n", time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly),
				100+i%7, 103+i%7, 99+i%7, 101+i%7)
		}
		b.WriteString(row)
	}
	return b.String()
}

// TestRefusals checks that what cannot be read is refused with what is wrong and what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		o    Options
		want string
	}{
		"empty":  {"", Options{}, "the file is empty"},
		"blank":  {" \r\n\n", Options{}, "the file is empty"},
		"words":  {"Too Many Requests\n", Options{}, `no line has a time and four prices (open, high, low, close), separated by`},
		"page":   {"\n<!DOCTYPE html><title>429</title>", Options{}, "the file is a web page or XML, not a table"},
		"JSON":   {`[[1704067200000,"1","2"]]`, Options{}, "the file is JSON"},
		"sheet":  {"\xd0\xcf\x11\xe0....", Options{}, "an Excel workbook: save the sheet as CSV"},
		"binary": {"abc\x00def", Options{}, "the file is not text"},
		"a row":  {head + "2024-01-01,1,2,1,2,3\n", Options{}, "the file has one bar, which does not show a timeframe"},
		"no row": {head, Options{}, "no line has a time and four prices"},
		"day or month": {"Date,Open,High,Low,Close\n05/06/2024,1,2,1,2\n06/06/2024,1,2,1,2\n07/06/2024,1,2,1,2\n", Options{},
			`the date "07/06/2024" is 2024-06-07 or 2024-07-06, and no other date of the file decides: give --dates`},
		"point or comma": {"Date;Open;High;Low;Close\n2024-01-01;1,234;2,345;1,234;2,345\n2024-01-02;1,234;2,345;1,234;2,345\n", Options{},
			`the number "1,234" is 1234 or 1.234, and no other number of the file decides: give --decimal`},
		"no close":   {"time,open,high,low\n2024-01-01,1,2,1,7,8\n2024-01-02,1,2,1,8,9\n", Options{}, "line 1: there is no column close"},
		"two closes": {"time,open,high,low,close,Close\n2024-01-01,1,2,1,1,2\n2024-01-02,1,2,1,2,1\n", Options{}, "line 1: there are two columns close"},
		"two hours": {head + "2024-01-01 00:00,1,2,1,2,3\n2024-01-01 02:00,1,2,1,2,3\n", Options{},
			"the bars open 2h apart; timeframes are 1m, 5m, 15m, 1h, 4h, 1d"},
		"of days":    {days(9, nil), Options{Timeframe: signal.H1}, "the bars open 24h apart, so they are not those of 1h"},
		"time":       {days(9, map[int]string{3: "soon,1,2,1,2,3\n"}), Options{}, `line 5: time "soon" is not valid` + "\n--skip-bad"},
		"number":     {days(9, map[int]string{3: "2024-01-04,1,2,1,two,3\n"}), Options{}, `line 5: close "two" is not a number`},
		"hex":        {days(9, map[int]string{3: "2024-01-04,1,0x2,1,2,3\n"}), Options{}, `line 5: high "0x2" is not a number`},
		"huge":       {days(9, map[int]string{3: "2024-01-04,1,1e999,1,2,3\n"}), Options{}, `line 5: high "1e999" is not a number`},
		"negative":   {days(9, map[int]string{3: "2024-01-04,-1,2,1,2,3\n"}), Options{}, "line 5: price -1"},
		"volume":     {days(9, map[int]string{3: "2024-01-04,1,2,1,2,-3\n"}), Options{}, "line 5: volume -3"},
		"high":       {days(9, map[int]string{3: "2024-01-04,1,1.5,1,2,3\n"}), Options{}, "line 5: high 1.5 below open or close"},
		"a hole":     {days(9, map[int]string{3: "2024-01-04,1,2,,2,3\n"}), Options{}, "line 5: there is no value of 1 prices"},
		"short":      {days(9, map[int]string{3: "2024-01-04,1,2\n"}), Options{}, "line 5: there are 3 values: column low is missing"},
		"long":       {days(9, map[int]string{3: "2024-01-04,1,2,1,2,3,4\n"}), Options{}, "line 5: there are 7 values, 1 more than in other lines"},
		"other bar":  {days(9, map[int]string{3: "2024-01-03,102,105,101,104,7\n"}), Options{}, "line 5: the bar of 2024-01-03 is another one than in line 4: close 104, there 103"},
		"inside":     {head + "2024-01-01 00:00,1,2,1,2,3\n2024-01-01 01:00,1,2,1,2,3\n2024-01-01 01:30,1,2,1,2,3\n2024-01-01 02:00,1,2,1,2,3\n2024-01-01 03:00,1,2,1,2,3\n2024-01-01 04:00,1,2,1,2,3\n", Options{Timeframe: signal.H1}, "line 4: the bar opens at 2024-01-01 01:30:00, before that of line 3 closes (2024-01-01 02:00:00)"},
		"many bad":   {days(300, map[int]string{3: "x,1,2,1,2,3\n", 4: "x,1,2,1,2,3\n", 5: "x,1,2,1,2,3\n", 6: "x,1,2,1,2,3\n"}), Options{SkipBad: true}, "4 of 300 rows are bad, and --skip-bad skips up to 1 %"},
		"many bars":  {days(50, nil), Options{MaxBars: 40}, "line 42: the file has more than 40 bars"},
		"assets":     {"symbol,time,open,high,low,close\nABC,2024-01-01,1,2,1,2\nABC,2024-01-02,1,2,1,2\nXYZ,2024-01-01,5,6,5,6\n", Options{Asset: "SPY"}, `the file has the bars of several assets (ABC, XYZ), none of which is "SPY"`},
		"cut gzip":   {pack(days(500, nil))[:60], Options{}, "the compressed file is broken or cut off"},
		"two tables": {zipped("a.csv", days(9, nil), "b.csv", days(9, nil)), Options{}, "the archive has 2 tables (a.csv, b.csv): unpack it"},
		"workbook":   {zipped("[Content_Types].xml", "<x>"), Options{}, "an Excel workbook"},
	} {
		read, err := Read(strings.NewReader(c.text), c.o)
		if _, ok := errors.AsType[*FileError](err); !ok || read.Bars != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	broken := errors.New("disk failure")
	if _, err := Read(io.MultiReader(strings.NewReader(days(9, nil)), iotest.ErrReader(broken)), Options{}); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// pack returns a text in gzip.
func pack(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // to memory
	_ = w.Close()
	return b.String()
}

// zipped returns an archive of files, given as names and texts.
func zipped(files ...string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, _ := w.Create(files[i]) // to memory
		_, _ = io.WriteString(f, files[i+1])
	}
	_ = w.Close()
	return b.String()
}

// TestEachRowIsCounted checks that what becomes no bar of its own is counted, and what is decided by options.
func TestEachRowIsCounted(t *testing.T) {
	t.Parallel()
	const again = "2024-01-03,102,105,101,103,7\n"
	june := "Date,Open,High,Low,Close\n05/06/2024,1,2,1,2\n06/06/2024,1,2,1,2\n"
	at := func(day int) int64 { return time.Date(2024, 1, day, 0, 0, 0, 0, time.UTC).UnixMilli() }
	for name, c := range map[string]struct {
		text string
		o    Options
		bars int
		last string // the date of the last bar; empty: not checked
		want string // in the report, separated by |
	}{
		"equal rows":      {days(9, map[int]string{3: again}), Options{}, 8, "", "bars: 8 of 1d from 9 rows|1 equal rows merged"},
		"a tick":          {days(9, map[int]string{3: "2024-01-04,10.02,10.01,9.5,10,7\n"}), Options{}, 9, "", "1 bars widened by a tick"},
		"no prices":       {days(9, map[int]string{3: "2024-01-04,,,,,\n"}), Options{}, 8, "", "1 rows without prices"},
		"skipped":         {days(300, map[int]string{3: "x,1,2,1,2,3\n", 9: "2024-01-10,1,2,3,4,5\n"}), Options{SkipBad: true}, 300, "", `2 bad rows skipped|skipped, line 5: time "x" is not valid|skipped, line 11: high 2 below`},
		"another one":     {days(300, map[int]string{3: "2024-01-03,102,105,101,104,7\n"}), Options{SkipBad: true}, 300, "", "skipped, line 5: the bar of 2024-01-03 is another one"},
		"before from":     {days(30, map[int]string{3: "x,1,2,1,2,3\n"}), Options{From: at(10)}, 26, "2024-01-30", "3 bars beyond a bad row outside of --from and --to left out"},
		"after to":        {days(30, map[int]string{20: "2024-01-21,1,1,9,1,1\n"}), Options{To: at(10)}, 20, "2024-01-20", "9 bars beyond a bad row"},
		"two orders":      {june, Options{Dates: MonthFirst, Timeframe: ""}, 0, "", ""},
		"day first":       {june, Options{Dates: DayFirst}, 2, "2024-06-06", "day-first"},
		"decimal comma":   {"Date;Open;High;Low;Close\n2024-01-01;1,234;2,345;1,234;2,345\n2024-01-02;1,234;2,345;1,234;2,345\n", Options{Decimal: Comma}, 2, "", "decimal comma"},
		"comments":        {"# made by hand\n" + days(9, map[int]string{3: "# a note\n", 5: head}), Options{}, 7, "", "note, line 1|1 comments|1 repeated headers"},
		"out of order":    {days(9, map[int]string{3: "2024-01-09,101,104,100,102,7\n", 8: "2024-01-04,103,106,102,104,7\n"}), Options{}, 9, "2024-01-09", "rows moved, which stood before older ones"},
		"an asset of two": {"symbol,time,open,high,low,close\nABC,2024-01-01,1,2,1,2\nXYZ,2024-01-01,5,6,5,6\nXYZ,2024-01-02,5,6,5,6\n", Options{Asset: "xyz"}, 2, "", "1 rows of other assets"},
		"now": {head + "2024-01-01 00:00,1,2,1,2,3\n2024-01-01 01:00,1,2,1,2,3\n2024-01-01 02:00,1,2,1,2,3\n2024-01-01 02:41,1,2,1,2,3\n", Options{}, 3, "",
			"1 last row, inside the bar before, left out"},
		"old Macintosh": {strings.ReplaceAll(days(9, nil), "\n", "\r"), Options{}, 9, "", ""},
		"gzip":          {pack(days(9, nil)), Options{}, 9, "", "gzip, cells"},
		"no end":        {strings.TrimSuffix(days(9, nil), "\n"), Options{}, 9, "", ""},
		"hours of days": {strings.ReplaceAll(days(9, nil), ",7\n", ",7,,\n"), Options{}, 9, "", ""},
	} {
		read, err := Read(strings.NewReader(c.text), c.o)
		if name == "two orders" {
			if err == nil || !strings.Contains(err.Error(), "the bars open 30 days apart") && !strings.Contains(err.Error(), "31 days apart") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(read.Bars) != c.bars {
			t.Errorf("%s: %d bars, %v", name, len(read.Bars), err)
			continue
		}
		var text strings.Builder
		_ = read.Report.Print(&text) // to memory
		for _, part := range strings.Split(c.want, "|") {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%s: the report lacks %s:\n%s", name, part, text.String())
			}
		}
		if last := dateText(read.Bars[len(read.Bars)-1].OpenTime); c.last != "" && last != c.last {
			t.Errorf("%s: last bar %s, want %s", name, last, c.last)
		}
	}
}

// TestGapsCutTheSeries checks that bars of a market that never closes are filled up to three, and that longer gaps are
// named and cut the series; that weekends do neither.
func TestGapsCutTheSeries(t *testing.T) {
	t.Parallel()
	hours := func(closed func(i int, at time.Time) bool) File {
		var b strings.Builder
		b.WriteString(head)
		for i := range 24 * 40 {
			if at := time.Date(2024, 1, 1, i, 0, 0, 0, time.UTC); !closed(i, at) {
				fmt.Fprintf(&b, "%s,1,2,1,2,3\n", at.Format(time.DateTime))
			}
		}
		read, err := Read(strings.NewReader(b.String()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	always := hours(func(i int, _ time.Time) bool { return i == 30 || i >= 50 && i < 53 || i >= 100 && i < 110 || i == 300 })
	if r := always.Report; !r.AlwaysOpen || r.Filled != 5 || len(r.Gaps) != 1 || r.Gaps[0].Minutes != 600 || !r.Gaps[0].Cut ||
		len(always.Cuts) != 1 || always.Bars[always.Cuts[0]].OpenTime-always.Bars[always.Cuts[0]-1].CloseTime != 10*hourMs {
		t.Errorf("always open: %+v, cuts %v", r, always.Cuts)
	}
	for i := 1; i < len(always.Bars); i++ {
		if b := always.Bars[i]; i != always.Cuts[0] && b.OpenTime != always.Bars[i-1].CloseTime {
			t.Errorf("bar %d does not follow", i)
		}
	}
	weekdays := hours(func(i int, at time.Time) bool {
		return at.Weekday() == time.Saturday || at.Weekday() == time.Sunday || i >= 200 && i < 350
	})
	if r := weekdays.Report; r.AlwaysOpen || r.Filled != 0 || len(weekdays.Cuts) != 0 || len(r.Gaps) != 1 || r.Gaps[0].Cut {
		t.Errorf("weekdays: %+v, cuts %v", r, weekdays.Cuts)
	}
	away := hours(func(i int, at time.Time) bool { return at.Weekday() == time.Sunday || i >= 200 && i < 560 })
	if len(away.Cuts) != 1 || !away.Report.Gaps[0].Cut {
		t.Errorf("fifteen days: %+v, cuts %v", away.Report, away.Cuts)
	}
}

// endless repeats a text.
type endless struct {
	text string
	left int
}

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && e.left > 0 {
		c := copy(p[n:], e.text)
		n, e.left = n+c, e.left-c
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestHostileFilesTakeLittleMemory checks that what is far too large is refused before it is held.
func TestHostileFilesTakeLittleMemory(t *testing.T) {
	bomb := func(text string) io.Reader {
		r, w := io.Pipe()
		go func() {
			z := gzip.NewWriter(w)
			_, err := io.Copy(z, io.MultiReader(strings.NewReader(days(40, nil)), &endless{text, 128 << 20}))
			_ = z.Close()
			w.CloseWithError(err)
		}()
		return r
	}
	zeros := strings.Repeat("0", 1<<20)
	blank := strings.Repeat(" \n", 1<<19)
	for _, c := range []struct {
		name string
		r    io.Reader
		want string
	}{
		{"10 million columns", &endless{"1,", 20_000_000}, "line 1 is longer than 64 KiB: a line has one bar"},
		{"2,000 columns", strings.NewReader("2024-01-01" + strings.Repeat(",5", 2000) + "\n2024-01-02" + strings.Repeat(",5", 2000) + "\n"),
			"a line has 2001 columns, more than 1000"},
		{"a line of 100 MB", io.MultiReader(strings.NewReader(days(40, nil)), &endless{zeros, 100 << 20}), "is longer than 64 KiB"},
		{"a line of 100 MB, later", io.MultiReader(strings.NewReader(days(100_000, nil)), &endless{zeros, 100 << 20}), "is longer than 64 KiB"},
		{"a packed line", bomb(zeros), "is longer than 64 KiB"},
		{"a bomb", bomb(blank), "the file unpacks to more than 64 MiB"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(c.r, Options{MaxText: 64 << 20})
		runtime.ReadMemStats(&after)
		if _, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
			t.Errorf("%s: %d MiB allocated", c.name, got>>20)
		}
	}
}

// TestAChangingFileIsRefused checks that no bars are returned of a file that is written while it is read.
func TestAChangingFileIsRefused(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "spy.csv")
	if err := os.WriteFile(name, []byte(days(9, nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := ReadFile(name, nil, Options{}); err != nil || len(read.Bars) != 9 {
		t.Fatalf("%d bars, %v", len(read.Bars), err)
	}
	unchanged := func() error { return nil }
	grows := func() error { return os.WriteFile(name, []byte(days(12, nil)), 0o600) }
	replaced := func() error { return os.Remove(name) }
	for i, during := range []func() error{unchanged, grows, replaced} {
		_, err := readUnchanged(name, Options{}, during)
		if (err == nil) != (i == 0) || err != nil && !strings.Contains(err.Error(), "the file was changed while it was read") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := ReadFile(name, nil, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if read, err := ReadFile("-", strings.NewReader(days(9, nil)), Options{}); err != nil || len(read.Bars) != 9 {
		t.Errorf("standard input: %d bars, %v", len(read.Bars), err)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			f.Add(text, false)
		}
	}
	f.Add([]byte(days(20, map[int]string{3: "2024-01-03,1,1,1,1,1\n", 4: "x\n"})), true)
	f.Add([]byte("time;o;h;l;c\n1 Jan 24 9:05 pm EST;1.234,5;1e3;1;1\n\xff\xfe;;;;\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, skip bool) {
		read, err := Read(bytes.NewReader(text), Options{SkipBad: skip})
		if err != nil && (read.Bars != nil || len(err.Error()) > 10_000) {
			t.Errorf("%d bars with an error of %d bytes", len(read.Bars), len(err.Error()))
		}
		for i, b := range read.Bars {
			if strategy.CheckBar(b) != nil || i > 0 && b.OpenTime < read.Bars[i-1].CloseTime {
				t.Errorf("bar %d is %+v", i, b)
			}
		}
		r := read.Report
		if lost := r.Rows - (r.Bars - r.Filled) - r.Merged - r.Empty - r.Unfinished - r.OtherAssets - r.Skipped - r.Outside; err == nil && lost != 0 {
			t.Errorf("%d rows are not accounted for: %+v", lost, r)
		}
	})
}
