package backtest

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// maxFaults is the number of bad lines that are reported.
	maxFaults = 10
	// maxCSVBars bounds a file: some 60 bytes of memory each.
	maxCSVBars = 10_000_000
	// maxCell is the number of characters of a bad value that are quoted.
	maxCell = 40
)

// byteOrderMark begins the files of some programs.
const byteOrderMark = "\ufeff"

// columns lists the names that a column may have in the first line, ignoring case. The
// first five are required.
var columns = [...]struct {
	name  string
	names []string
}{
	{"time", []string{"open_time", "time", "timestamp", "date", "datetime"}},
	{"open", []string{"open", "o"}},
	{"high", []string{"high", "h"}},
	{"low", []string{"low", "l"}},
	{"close", []string{"close", "c"}},
	{"volume", []string{"volume", "vol", "v"}},
}

// Places in columns.
const (
	timeColumn = iota
	openColumn
	highColumn
	lowColumn
	closeColumn
	volumeColumn
)

// FileError reports the faults of a file of bars, line by line.
type FileError struct {
	Faults []string // the first ones, each with its line
	More   int      // the number of further faults
}

// Error implements error.
func (e *FileError) Error() string {
	text := strings.Join(e.Faults, "\n")
	if e.More > 0 {
		text += fmt.Sprintf("\nand %d more", e.More)
	}
	return text
}

func (e *FileError) add(line int, format string, args ...any) {
	if len(e.Faults) >= maxFaults {
		e.More++
		return
	}
	e.Faults = append(e.Faults, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// ReadCSV reads bars of a timeframe, oldest first. The first line names the columns: time
// (or open_time, timestamp, date), open, high, low, close and optionally volume; others
// are ignored. The time is that of the bar's open: milliseconds or seconds since 1970,
// RFC 3339, or a date or time without an offset, which is UTC. Of two lines with the same
// time the later one counts. Bars of a longer timeframe are refused. The error is a
// *FileError, or that of the reader.
func ReadCSV(r io.Reader, tf signal.Timeframe) ([]marketdata.Bar, error) {
	text := bufio.NewReader(r)
	if mark, err := text.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = text.Discard(len(mark)) // Peek has read it
	}
	lines := csv.NewReader(text)
	lines.FieldsPerRecord = -1
	lines.ReuseRecord = true
	lines.TrimLeadingSpace = true
	faults := &FileError{}
	head, err := lines.Read()
	if errors.Is(err, io.EOF) {
		faults.add(1, "the file is empty: the first line must name the columns")
		return nil, faults
	}
	if err != nil {
		return nil, malformed(faults, err)
	}
	places, ok := findColumns(head, faults)
	if !ok {
		return nil, faults
	}
	var bars []marketdata.Bar
	for {
		cells, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(faults, err)
		}
		line, _ := lines.FieldPos(0)
		b, err := parseLine(cells, places, tf)
		if err == nil {
			bars, err = appendLine(bars, b)
		}
		if err != nil {
			faults.add(line, "%v", err)
		}
		if len(bars) > maxCSVBars {
			faults.add(line, "more than %d bars", maxCSVBars)
			break
		}
	}
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	if apart := nearest(bars); apart > tf.Duration() {
		faults.add(1, "the bars are longer than %s: no two of them open less than %s apart", tf,
			wholeUnits.Replace(apart.String()))
		return nil, faults
	}
	return bars, nil
}

// wholeUnits removes zero units from a duration.
var wholeUnits = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// nearest returns the smallest distance between the open times of two bars; 0 for fewer
// than two bars.
func nearest(bars []marketdata.Bar) time.Duration {
	var smallest int64
	for i := 1; i < len(bars); i++ {
		if d := bars[i].OpenTime - bars[i-1].OpenTime; smallest == 0 || d < smallest {
			smallest = d
		}
	}
	return time.Duration(smallest) * time.Millisecond
}

// malformed adds a syntax error of the CSV reader to faults, after which it cannot
// continue. Errors of the underlying reader are wrapped.
func malformed(faults *FileError, err error) error {
	e, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return fmt.Errorf("read bars: %w", err)
	}
	faults.add(e.Line, "%v", e.Err)
	return faults
}

// findColumns returns the index of each of columns in the first line; -1 if it is
// missing.
func findColumns(head []string, faults *FileError) (places [len(columns)]int, ok bool) {
	for i := range places {
		places[i] = -1
	}
	for at, cell := range head {
		name := strings.ToLower(strings.TrimSpace(cell))
		for i := range columns {
			if !slices.Contains(columns[i].names, name) {
				continue
			}
			if places[i] >= 0 {
				faults.add(1, "there are two columns %s", columns[i].name)
			}
			places[i] = at
		}
	}
	for i := range columns[:volumeColumn] {
		if places[i] < 0 {
			c := &columns[i]
			faults.add(1, "there is no column %s (may be named %s)", c.name, strings.Join(c.names, ", "))
		}
	}
	return places, len(faults.Faults) == 0
}

// parseLine parses a bar.
func parseLine(cells []string, places [len(columns)]int, tf signal.Timeframe) (marketdata.Bar, error) {
	cell := func(column int) (string, error) {
		at := places[column]
		if at < 0 {
			return "", nil
		}
		if at >= len(cells) {
			return "", fmt.Errorf("there are %d values: column %s is missing", len(cells), columns[column].name)
		}
		return strings.TrimSpace(cells[at]), nil
	}
	text, err := cell(timeColumn)
	if err != nil {
		return marketdata.Bar{}, err
	}
	opened, ok := parseOpenTime(text)
	if !ok {
		return marketdata.Bar{}, fmt.Errorf("time %s is not valid: "+
			"write 1795253400000, 1795253400, 2026-11-21T09:30:00Z or 2026-11-21", quoted(text))
	}
	b := marketdata.Bar{OpenTime: opened, CloseTime: opened + tf.Duration().Milliseconds()}
	for column, v := range map[int]*float64{openColumn: &b.Open, highColumn: &b.High, lowColumn: &b.Low,
		closeColumn: &b.Close, volumeColumn: &b.Volume} {
		text, cellErr := cell(column)
		if cellErr != nil {
			return marketdata.Bar{}, cellErr
		}
		if column == volumeColumn && text == "" {
			continue
		}
		if *v, ok = parseDecimal(text); !ok {
			return marketdata.Bar{}, fmt.Errorf("%s %s is not a number", columns[column].name, quoted(text))
		}
	}
	return b, strategy.CheckBar(b)
}

// appendLine appends b, the bar of the next line.
func appendLine(bars []marketdata.Bar, b marketdata.Bar) ([]marketdata.Bar, error) {
	if n := len(bars); n > 0 && b.OpenTime != bars[n-1].OpenTime {
		last := bars[n-1]
		at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
		if b.OpenTime < last.OpenTime {
			return bars, fmt.Errorf("the bar opens at %s, before the one above it (%s): the oldest must come first",
				at(b.OpenTime), at(last.OpenTime))
		}
		if b.OpenTime < last.CloseTime {
			return bars, fmt.Errorf("the bar opens at %s, before the one above it closes (%s): is the timeframe right?",
				at(b.OpenTime), at(last.CloseTime))
		}
	}
	return strategy.AppendBar(bars, b)
}

// openTimeLayouts are the accepted forms of a time other than numbers.
var openTimeLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	"2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly}

// The accepted times. Between them seconds and milliseconds since 1970 cannot be confused.
var (
	firstTime = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	lastTime  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// parseOpenTime returns a time in milliseconds since 1970.
func parseOpenTime(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n <= lastTime/1000 { // milliseconds of so small a number lie before firstTime
			n *= 1000
		}
		return n, n >= firstTime && n < lastTime
	}
	for _, layout := range openTimeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			ms := t.UnixMilli()
			return ms, ms >= firstTime && ms < lastTime
		}
	}
	return 0, false
}

// parseDecimal reads a plain decimal number. strconv alone would also take NaN, Inf,
// hexadecimals and underscores.
func parseDecimal(text string) (float64, bool) {
	if text == "" || strings.Trim(text, "0123456789.+-eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// quoted returns the beginning of a value, in quotes.
func quoted(text string) string {
	if utf8.RuneCountInString(text) > maxCell {
		text = string([]rune(text)[:maxCell]) + "…"
	}
	return strconv.Quote(text)
}
