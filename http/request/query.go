package request

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

const (
	defaultLimit = 25
	maxLimit     = 100
	// maxOffset is beyond the end of every list. Larger offsets are equivalent.
	maxOffset = math.MaxInt32
)

// Query reads the parameters of a URL. Its methods record the fault of a value, and return
// zero if it is wrong, absent or empty.
type Query struct {
	faults *Faults
	params []param
}

type param struct{ name, value string }

// NewQuery reads a raw query whose parameters must be among names, each given at most once.
// An unknown parameter is a fault: without a misspelt filter, a list would be another one
// than the client wanted.
func NewQuery(raw string, f *Faults, names ...string) *Query {
	q := &Query{faults: f}
	for raw != "" && len(f.list) < maxFaults {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			name = key
		}
		if !slices.Contains(names, name) {
			if name = spelling.Shorten(name); !q.IsBad(name) {
				q.faults.Add(InQuery, name, CodeUnknown, unknownName("parameter", name, names))
			}
			continue
		}
		if slices.ContainsFunc(q.params, func(p param) bool { return p.name == name }) {
			q.bad(name, CodeDuplicate, "is given more than once")
			continue
		}
		text, err := url.QueryUnescape(value)
		if err != nil || !utf8.ValidString(text) {
			q.bad(name, CodeFormat, "must be percent-encoded UTF-8")
			text = ""
		}
		q.params = append(q.params, param{name, text})
	}
	return q
}

// unknownName returns the detail of a name that is not among names. It suggests the nearest.
func unknownName(kind, name string, names []string) string {
	unknown := "there is no such " + kind
	if len(names) == 0 {
		return unknown + ": this endpoint has none"
	}
	if near := spelling.Nearest(name, names); len(near) > 0 {
		return unknown + "; the nearest one is " + strings.Join(near, ", ")
	}
	return unknown + "; there are " + strings.Join(names, ", ")
}

// bad records a fault once for each parameter.
func (q *Query) bad(name, code, detail string) {
	if !q.IsBad(name) {
		q.faults.Add(InQuery, name, code, detail)
	}
}

// IsBad reports whether a fault of a parameter was recorded.
func (q *Query) IsBad(name string) bool {
	return q.faults.has(InQuery, name)
}

// Get returns the value of a parameter, or "" if it is absent.
func (q *Query) Get(name string) string {
	value, _ := q.Lookup(name)
	return value
}

// Lookup returns the value of a parameter, and whether it is given, which it may be without a value.
func (q *Query) Lookup(name string) (value string, given bool) {
	for _, p := range q.params {
		if p.name == name {
			return p.value, true
		}
	}
	return "", false
}

// Text reads a text of 1 to maxLength characters.
func (q *Query) Text(name string, maxLength int) string {
	v := q.Get(name)
	if v == "" {
		return ""
	}
	v = strings.TrimSpace(v)
	if code, detail := CheckText(v, maxLength); code != "" {
		q.bad(name, code, detail)
		return ""
	}
	return v
}

// Option reads a parameter that must be one of values.
func Option[T ~string](q *Query, name string, values []T) T {
	v := q.Get(name)
	if v != "" && !slices.Contains(values, T(v)) {
		q.bad(name, CodeInvalidValue, OneOf(values))
		return ""
	}
	return T(v)
}

// Fraction reads a number from 0 to 1, written as in JSON.
func (q *Query) Fraction(name string) float64 {
	v := q.Get(name)
	if v == "" {
		return 0
	}
	if !jsonobject.IsNumber(v) {
		q.bad(name, CodeInvalidType, "must be a number")
		return 0
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || x < 0 || x > 1 {
		q.bad(name, CodeOutOfRange, "must be from 0 to 1")
		return 0
	}
	return x
}

// Page is the part of a list that a client requests.
type Page struct {
	Limit   int
	Offset  int
	Written string // the offset as the client wrote it, which has no upper limit
}

// Page reads limit and offset.
func (q *Query) Page() Page {
	p := Page{Limit: defaultLimit, Written: "0"}
	if v := q.Get("limit"); v != "" {
		n, digits := whole(v)
		switch {
		case !digits:
			q.bad("limit", CodeInvalidType, "must be an integer")
		case n < 1 || n > maxLimit || v[0] == '-':
			q.bad("limit", CodeOutOfRange, "must be from 1 to "+strconv.Itoa(maxLimit))
		default:
			p.Limit = n
		}
	}
	if v := q.Get("offset"); v != "" {
		n, digits := whole(v)
		switch {
		case !digits:
			q.bad("offset", CodeInvalidType, "must be an integer")
		case v[0] == '-' && n > 0:
			q.bad("offset", CodeOutOfRange, "must be 0 or more")
		default:
			p.Offset = min(n, maxOffset)
			if v = strings.TrimLeft(v, "-0"); v != "" {
				p.Written = v
			}
		}
	}
	return p
}

// whole returns the absolute value of a decimal integer, at most MaxInt, and whether v is
// an integer.
func whole(v string) (n int, ok bool) {
	v = strings.TrimPrefix(v, "-")
	if v == "" || strings.Trim(v, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(v)
	if err != nil { // digits, but too many
		n = math.MaxInt
	}
	return n, true
}

// More reports whether the list goes on after a page that holds n of total items.
func (p Page) More(n, total int) bool { return p.Offset+n < total }

// Cut returns the page of a list that is in memory.
func Cut[T any](p Page, list []T) []T {
	from := min(p.Offset, len(list))
	return list[from:min(from+p.Limit, len(list))]
}

// writtenTime matches the accepted forms of a time. time.Parse alone also accepts hours of
// one digit and a decimal comma.
var writtenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)?$`)

// timeLayouts are these forms for time.Parse, which accepts a fraction of a second in each.
var timeLayouts = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", time.DateOnly}

// timeForm is the detail of a text that is not a time.
const timeForm = "must be a time such as 2026-11-21T09:30:00Z, or a date"

// parseTime reads a time: RFC 3339 with any offset, without an offset (UTC), or a date
// (midnight UTC), in any case.
func parseTime(text string) (time.Time, bool) {
	text = strings.ToUpper(text)
	if writtenTime.MatchString(text) {
		for _, layout := range timeLayouts {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UTC(), true
			}
		}
	}
	return time.Time{}, false
}

// Since reads the parameter since, a time.
func (q *Query) Since() time.Time { return q.Time("since") }

// Time reads a time. An unescaped "+" arrives as a space, which cannot mean anything else there.
func (q *Query) Time(name string) time.Time {
	v := q.Get(name)
	if v == "" {
		return time.Time{}
	}
	if i := strings.LastIndexByte(v, ' '); i > len(time.DateOnly) {
		v = v[:i] + "+" + v[i+1:]
	}
	t, ok := parseTime(v)
	if !ok {
		q.bad(name, CodeFormat, timeForm)
	}
	return t
}

// Times reads two times, of which to must not be before from.
func (q *Query) Times(from, to string) (start, end time.Time) {
	start, end = q.Time(from), q.Time(to)
	if !start.IsZero() && !end.IsZero() && end.Before(start) {
		q.bad(to, CodeOutOfRange, "must not be before "+from)
	}
	return start, end
}
