package barfile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

const (
	// maxBars bounds a file: some 80 bytes of memory each.
	maxBars = 10_000_000
	// sampleBytes is how much of a file is held to recognize it. It must reach the second half of a
	// month in bars of a minute, which shows the order of day and month.
	sampleBytes    = 4 << 20
	maxSampleLines = 100_000
	maxLineBytes   = 64 << 10
)

// Options says what of a file is read, and decides what the file does not.
type Options struct {
	Timeframe signal.Timeframe // empty: that of the bars
	Asset     string           // that of a file with the bars of several
	// From and To bound what must be right, in milliseconds; 0: no bound. At a fault outside of them the
	// bars begin or end.
	From, To int64
	Tick     float64 // tick size of the prices; 0: by their digits
	SkipBad  bool    // a few bad rows are skipped
	Dates    DateOrder
	Decimal  DecimalSign
	MaxBars  int   // 0: 10 million
	MaxText  int64 // of the text after unpacking, in bytes; 0: 2 GiB
	Size     int64 // of the file in bytes; 0: not known. It saves memory.
}

// File is what was read.
type File struct {
	Bars []marketdata.Bar // ascending
	// Cuts has the indices of bars that open after an outage, ascending. What was computed from the bars before
	// says nothing about those after it.
	Cuts      []int
	Timeframe signal.Timeframe
	Report    Report
}

// FileError reports why a file is refused. Its text is for a person.
type FileError struct {
	Message string
	Faults  []Fault // rows that are at fault, the first ones
	More    int     // the number of further ones
}

// Error implements error.
func (e *FileError) Error() string {
	var text []string
	for _, f := range e.Faults {
		text = append(text, f.String())
	}
	if e.More > 0 {
		text = append(text, fmt.Sprintf("and %d more", e.More))
	}
	if e.Message != "" {
		text = append(text, e.Message)
	}
	return strings.Join(text, "\n")
}

// refusal is an error that a person reads: a sentence, and what to do.
func refusal(format string, args ...any) error {
	return &FileError{Message: fmt.Sprintf(format, args...)}
}

// Fault is what is wrong with a row.
type Fault struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	at   int64  // its time, or that of the row before if it has none, in milliseconds
}

// String returns the fault with its line.
func (f Fault) String() string { return fmt.Sprintf("line %d: %s", f.Line, f.Text) }

// ReadFile reads a file of bars, or standard input if its name is "-". The error is a *FileError, or that of the
// system.
func ReadFile(name string, stdin io.Reader, o Options) (File, error) {
	if name == "-" {
		return Read(stdin, o)
	}
	return readUnchanged(name, o, func() error { return nil })
}

// readUnchanged reads a file that nothing changes meanwhile; during is called after it is read.
func readUnchanged(name string, o Options, during func() error) (File, error) {
	file, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return File{}, err
	}
	o.Size = before.Size()
	read, readErr := Read(file, o)
	if err := during(); err != nil {
		return File{}, err
	}
	after, err := os.Stat(name)
	if err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return File{}, refusal("the file was changed while it was read: copy it, and read the copy")
	}
	return read, readErr
}

// Read reads a file of bars. The error is a *FileError, or that of the reader.
func Read(r io.Reader, o Options) (File, error) {
	text, packed, err := textOf(r, cmp.Or(o.MaxText, maxTextBytes))
	if err != nil {
		return File{}, err
	}
	lines := &lines{Reader: bufio.NewReaderSize(text, sampleBytes)}
	head, err := lines.head()
	if err != nil {
		return File{}, err
	}
	l, err := recognize(head, &o)
	if err != nil {
		return File{}, err
	}
	t, err := newTable(l, head, &o)
	if err != nil {
		return File{}, err
	}
	if t.report.Packed = packed; packed == "" {
		t.reserve(head)
	}
	if err := t.readAll(lines); err != nil {
		return File{}, err
	}
	return t.file()
}

// lines reads a text line by line.
type lines struct {
	*bufio.Reader
	newline byte
	number  int // of the last line
}

// head returns the first lines of the text without consuming them.
func (l *lines) head() ([][]byte, error) {
	head, err := l.Peek(sampleBytes)
	whole := errors.Is(err, io.EOF)
	if err != nil && !whole {
		return nil, readError(err)
	}
	if l.newline = '\n'; bytes.IndexByte(head, '\n') < 0 && bytes.IndexByte(head, '\r') >= 0 {
		l.newline = '\r'
	}
	var lines [][]byte
	for len(head) > 0 && len(lines) < maxSampleLines {
		line, rest, ended := bytes.Cut(head, []byte{l.newline})
		if len(line) > maxLineBytes {
			return nil, tooLong(len(lines) + 1)
		}
		if ended || whole {
			lines = append(lines, bytes.TrimSuffix(line, []byte("\r")))
		}
		head = rest
	}
	return lines, nil
}

// next returns the next line without its end, which is valid until the next call, or io.EOF.
func (l *lines) next() ([]byte, error) {
	line, err := l.ReadSlice(l.newline)
	l.number++
	n := len(line)
	switch {
	case n > maxLineBytes:
		return nil, tooLong(l.number)
	case errors.Is(err, io.EOF) && n > 0:
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, readError(err)
	default:
		n--
	}
	if n > 0 && line[n-1] == '\r' {
		n--
	}
	return line[:n], nil
}

func tooLong(line int) error {
	return refusal("line %d is longer than %d KiB: a line has one bar", line, maxLineBytes>>10)
}

// spaces stands for runs of spaces between cells.
const spaces = ' '

// split appends the cells of a line to cells, trimmed and without quotes.
func split(cells [][]byte, line []byte, delimiter byte) [][]byte {
	if delimiter == spaces {
		return append(cells, bytes.Fields(line)...)
	}
	quotes := bytes.IndexByte(line, '"') >= 0
	for {
		end := bytes.IndexByte(line, delimiter)
		if quotes {
			end = unquotedIndex(line, delimiter)
		}
		if end < 0 {
			return append(cells, trimmed(line))
		}
		cells = append(cells, trimmed(line[:end]))
		line = line[end+1:]
	}
}

// unquotedIndex returns the index of the first delimiter outside of quotes, or -1.
func unquotedIndex(line []byte, delimiter byte) int {
	inside := false
	for i, c := range line {
		switch {
		case c == '"':
			inside = !inside
		case c == delimiter && !inside:
			return i
		}
	}
	return -1
}

// trimmed returns a cell without spaces and quotes around it.
func trimmed(cell []byte) []byte {
	for len(cell) > 0 && (cell[0] == ' ' || cell[0] == '"' || cell[0] == '\t') {
		cell = cell[1:]
	}
	for n := len(cell); n > 0 && (cell[n-1] == ' ' || cell[n-1] == '"' || cell[n-1] == '\t'); n = len(cell) {
		cell = cell[:n-1]
	}
	return cell
}
