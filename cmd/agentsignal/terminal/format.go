package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// The values of cells, beside string, int, int64, time.Time and *time.Time. One that is missing is shown
// as "-", and is empty in CSV.
type (
	direction string // "long" or "short"
	share     struct{ of *float64 }
	multiple  struct{ of *float64 } // of R
	percent   struct{ of *float64 } // is already one
	// price is a price of an asset, with as many decimals as show others as different.
	price struct {
		of    *float64
		asset string
		among []*float64
	}
	reason string // why a signal closed
)

// style is how a cell looks on a terminal.
type style string

const (
	plain  style = ""
	faint  style = "2"
	good   style = "32"
	bad    style = "31"
	warn   style = "33"
	strong style = "1"
	marked style = "7" // in reverse
)

// cell is a value for people.
type cell struct {
	text  string
	style style
	right bool // is aligned to the right
}

const missing = "-"

// formatter writes values for people.
type formatter struct {
	utc     bool // times in UTC, and not in the zone of this machine
	colours bool
}

// paint returns the text of a cell in its style.
func (f formatter) paint(c cell) string {
	if !f.colours || c.style == plain {
		return c.text
	}
	return "\x1b[" + string(c.style) + "m" + c.text + "\x1b[0m"
}

// cell returns a value as people write it.
func (f formatter) cell(v any) cell {
	switch v := v.(type) {
	case cell:
		return v
	case direction:
		return cell{text: clean(string(v)), style: map[direction]style{"long": good, "short": bad}[v]}
	case reason:
		return cell{text: clean(string(v)), style: map[reason]style{"take_profit": good, "stop_loss": bad}[v]}
	case share:
		return number(v.of, func(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" })
	case percent:
		c := number(v.of, func(x float64) string { return signed(x) + " %" })
		c.style = signStyle(v.of)
		return c
	case multiple:
		c := number(v.of, func(x float64) string { return signed(x) + " R" })
		c.style = signStyle(v.of)
		return c
	case price:
		return number(v.of, func(x float64) string { return assets.PriceText(v.asset, x, v.among...) })
	case int:
		return cell{text: strconv.Itoa(v), right: true}
	case time.Time:
		return cell{text: f.time(v)}
	case *time.Time:
		if v == nil {
			return cell{text: missing}
		}
		return cell{text: f.time(*v)}
	}
	return cell{text: clean(fmt.Sprint(v))}
}

// time returns a time in the zone that was asked for.
func (f formatter) time(t time.Time) string {
	switch {
	case t.IsZero():
		return missing
	case f.utc:
		t = t.UTC()
	default:
		t = t.Local()
	}
	return t.Format("2006-01-02 15:04:05")
}

func number(x *float64, write func(float64) string) cell {
	if x == nil {
		return cell{text: missing, right: true}
	}
	return cell{text: write(*x), right: true}
}

// signed returns a figure with two decimals and its sign, which zero does not have.
func signed(x float64) string {
	text := fmt.Sprintf("%+.2f", x)
	if text[1:] == "0.00" {
		return "0.00"
	}
	return text
}

func signStyle(x *float64) style {
	switch {
	case x == nil || *x == 0:
		return plain
	case *x > 0:
		return good
	}
	return bad
}

// clean returns a text of a service for one line of a terminal.
func clean(text string) string {
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(command.Printable(text))
	if text == "" {
		return missing
	}
	return text
}

// exact returns a value for programs.
func exact(v any) string {
	write := func(x *float64) string {
		if x == nil {
			return ""
		}
		return strconv.FormatFloat(*x, 'f', -1, 64)
	}
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case share:
		return write(v.of)
	case percent:
		return write(v.of)
	case multiple:
		return write(v.of)
	case price:
		return write(v.of)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339Nano)
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.UTC().Format(time.RFC3339Nano)
	}
	text := fmt.Sprint(v)
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text // a spreadsheet would take it for a formula
	}
	return text
}

// sinceForms are the forms of a time that parseSince reads, in the zone of the user without one.
var sinceForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04",
	"2006-01-02 15:04", time.DateOnly}

// maxAgo limits how long ago parseSince goes back.
const maxAgo = 100 * 365 * 24 * time.Hour

// parseSince reads a time, a date, or how long ago: 90m, 12h, 3d.
func parseSince(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, form := range sinceForms {
		if t, err := time.ParseInLocation(form, text, zone); err == nil {
			return t, nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); err == nil && math.Abs(n) <= maxAgo.Hours()/24 {
			ago = time.Duration(n * float64(24*time.Hour))
		} else {
			err = errors.New("out of range")
		}
	}
	if err != nil || ago < 0 || ago > maxAgo {
		return time.Time{}, fmt.Errorf("%q is no time: give one like 2026-11-21, 2026-11-21T09:30:00Z, 90m or 3d", text)
	}
	return now.Add(-ago), nil
}

// parseParameters reads the parameters of a run, each name=value. A value that begins as JSON does is
// JSON; otherwise it is a text. A name that is given again has the list of its values.
func parseParameters(texts []string) (map[string]any, error) {
	all := map[string]any{}
	for _, text := range texts {
		name, written, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("--param %q: is not of the form name=value", text)
		}
		var value any = written
		if strings.HasPrefix(written, "[") || strings.HasPrefix(written, "{") {
			if err := json.Unmarshal([]byte(written), &value); err != nil {
				return nil, fmt.Errorf("--param %s: %w", name, err)
			}
		}
		switch before := all[name].(type) {
		case nil:
			all[name] = value
		case []any:
			all[name] = append(before, value)
		default:
			all[name] = []any{before, value}
		}
	}
	return all, nil
}
