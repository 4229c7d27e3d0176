package backup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// fields are the fields of a record.
type fields [][]byte

// fieldsOf returns the fields with these values: each of a list, and of a map the names and the values in the order of the
// names.
func fieldsOf(values ...any) fields {
	f := make(fields, 0, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case []byte:
			f = append(f, v)
		case string:
			f = append(f, []byte(v))
		case int:
			f = append(f, strconv.AppendInt(nil, int64(v), 10))
		case int64:
			f = append(f, strconv.AppendInt(nil, v, 10))
		case signal.Position:
			f = append(f, v.Append(nil))
		case float64:
			f = append(f, strconv.AppendFloat(nil, v, 'f', -1, 64))
		case []string:
			for _, text := range v {
				f = append(f, []byte(text))
			}
		case map[string]string:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				f = append(f, []byte(name), []byte(v[name]))
			}
		default:
			f = append(f, fmt.Append(nil, v))
		}
	}
	return f
}

func (f fields) text(i int) string { return string(f[i]) }

func (f fields) account(i int) signal.AccountID { return signal.AccountID(f[i]) }

// number returns 0 for what is none.
func (f fields) number(i int) int64 {
	n, _ := strconv.ParseInt(string(f[i]), 10, 64)
	return n
}

// partition returns the number in the first field, which validate has checked.
func (f fields) partition() int { return int(f.number(0)) }

func (f fields) score(i int) float64 {
	s, _ := strconv.ParseFloat(string(f[i]), 64)
	return s
}

// position returns ErrDamaged for what is none.
func (f fields) position(i int) (signal.Position, error) {
	at, ok := signal.ParsePosition(string(f[i]))
	if !ok {
		return at, fmt.Errorf("%w (%q is no position)", ErrDamaged, f[i])
	}
	return at, nil
}

// expired reports whether the time in a field has passed; 0 never passes.
func (f fields) expired(i int, now time.Time) bool {
	ms := f.number(i)
	return ms != 0 && ms <= now.UnixMilli()
}

// args returns the fields from i as arguments of a command. They are copied: the buffer of the reader is used again.
func (f fields) args(i int) []any {
	list := make([]any, 0, len(f))
	for _, v := range f[i:] {
		list = append(list, string(v))
	}
	return list
}
