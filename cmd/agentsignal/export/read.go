package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/agentsignal/agentsignal/actors/record/verify"
)

// Limits of files.
const (
	// maxLine is the greatest length of a line of an export. A signal with a long text has some 100 KiB.
	maxLine = 4 << 20
	// maxFile is the greatest size of another file: a proof, a signal, a scorecard or a checkpoint.
	maxFile = 16 << 20
)

// version is that of the format of exports.
const version = 2

// errForm is the error of a file that is not what was asked for.
var errForm = errors.New("not readable")

// Unreadable reports whether err is that a file is not what was asked for, so that nothing could be
// checked.
func Unreadable(err error) bool { return errors.Is(err, errForm) }

// head is the first line of an export.
type head struct {
	Version int `json:"export"`
	signed
	Earlier []earlier `json:"earlier,omitempty"`
}

// signed is a checkpoint with the last entry of its root log.
type signed struct {
	Checkpoint string       `json:"checkpoint"`
	Heads      verify.Entry `json:"heads"`
}

// earlier is a checkpoint with the proof that the newest one begins with it.
type earlier struct {
	signed
	*verify.Growth
}

// line is another line of an export.
type line struct {
	Signal  json.RawMessage `json:"signal,omitempty"`
	Created *verify.Leaf    `json:"created,omitempty"`
	Closed  *verify.Leaf    `json:"closed"`
}

// end is the last line of an export.
type end struct {
	End struct {
		Signals int64 `json:"signals"`
	} `json:"end"`
}

// reader reads an export, one line at a time.
type reader struct {
	lines   *bufio.Scanner
	number  int // of the last line
	signals int64
}

// newReader returns a reader of an export, and its first line.
func newReader(r io.Reader) (*reader, *head, error) {
	x := &reader{lines: bufio.NewScanner(r)}
	x.lines.Buffer(nil, maxLine)
	var h head
	text, err := x.line()
	if errors.Is(err, verify.ErrIncomplete) {
		return nil, nil, fmt.Errorf("%w: the export is empty", verify.ErrIncomplete)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(text, &h); err != nil || h.Version != version || h.Checkpoint == "" {
		return nil, nil, fmt.Errorf("%w: the first line is not that of an export of version %d: "+
			"make one by agentsignal record export", errForm, version)
	}
	return x, &h, nil
}

// line returns the text of the next line. The end of the file is ErrIncomplete.
func (r *reader) line() ([]byte, error) {
	if r.lines.Scan() {
		r.number++
		return r.lines.Bytes(), nil
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: line %d is longer than %d bytes", errForm, r.number+1, maxLine)
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("%w: the last line of the export is missing, after %d signals", verify.ErrIncomplete,
		r.signals)
}

// next returns the line of the next signal, or io.EOF after the last one.
func (r *reader) next() (*line, error) {
	text, err := r.line()
	if err != nil {
		return nil, err
	}
	var l struct {
		line
		end
	}
	l.End.Signals = -1
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", verify.ErrIncomplete, r.number, err)
	}
	if l.End.Signals < 0 {
		if l.Created == nil || l.Signal == nil {
			return nil, fmt.Errorf(
				"%w: line %d has no signal with the leaf of its creation",
				verify.ErrIncomplete,
				r.number,
			)
		}
		r.signals++
		return &l.line, nil
	}
	if l.End.Signals != r.signals {
		return nil, fmt.Errorf("%w: the export has %d signals, and ends with the number %d", verify.ErrIncomplete,
			r.signals, l.End.Signals)
	}
	if _, err := r.line(); !errors.Is(err, verify.ErrIncomplete) {
		return nil, fmt.Errorf("%w: there is more after the last line of the export", verify.ErrIncomplete)
	}
	return nil, io.EOF
}

// ReadFile returns the content of a file that is not an export; the name - is standard input.
func ReadFile(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return text, err
}

// decode reads a JSON object.
func decode(text []byte, what string, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: it is not %s: %w", errForm, what, err)
	}
	return nil
}
