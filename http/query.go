package http

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
	// maxOffset is beyond the end of every list; larger offsets select the same.
	maxOffset = math.MaxInt32
)

// query reads the parameters of a URL. Its methods note what is wrong with a
// value and return false if it is wrong, absent or empty.
type query struct {
	faults *faults
	params []param
}

type param struct{ name, value string }

// newQuery reads a raw query whose parameters must be among names, each given once,
// whatever its value. A misspelt one must not be dropped: the list would not be the one
// that was asked for.
func newQuery(raw string, f *faults, names ...string) *query {
	q := &query{faults: f}
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
			if name = shorten(name); !q.isBad(name) {
				q.faults.add(inQuery, name, faultUnknown, unknownName("parameter", name, names))
			}
			continue
		}
		if slices.ContainsFunc(q.params, func(p param) bool { return p.name == name }) {
			q.bad(name, faultDuplicate, "is given more than once")
			continue
		}
		text, err := url.QueryUnescape(value)
		if err != nil || !utf8.ValidString(text) {
			q.bad(name, faultFormat, "must be percent-encoded UTF-8")
			text = ""
		}
		q.params = append(q.params, param{name, text})
	}
	return q
}

// unknownName refuses a name of that kind, and says which of names was probably meant.
func unknownName(kind, name string, names []string) string {
	none := "there is no such " + kind
	if len(names) == 0 {
		return none + ": this endpoint has none"
	}
	if near := spelling.Nearest(name, names); len(near) > 0 {
		return none + "; the nearest one is " + strings.Join(near, ", ")
	}
	return none + "; there are " + strings.Join(names, ", ")
}

// maxNamed is how many characters are shown of a name that a client made up.
const maxNamed = 64

// shorten returns the beginning of name, in valid UTF-8.
func shorten(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if utf8.RuneCountInString(name) <= maxNamed {
		return name
	}
	return string([]rune(name)[:maxNamed]) + "…"
}

// bad notes a fault once for each parameter.
func (q *query) bad(name, code, detail string) {
	if !q.isBad(name) {
		q.faults.add(inQuery, name, code, detail)
	}
}

// isBad reports whether a fault of a parameter was noted.
func (q *query) isBad(name string) bool {
	return slices.ContainsFunc(q.faults.list, func(f fault) bool { return f.In == inQuery && f.Name == name })
}

// get returns the value of a parameter; "" if it is absent or empty.
func (q *query) get(name string) string {
	for _, p := range q.params {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// text reads a text of 1 to high characters.
func (q *query) text(name string, high int) string {
	v := q.get(name)
	if v == "" {
		return ""
	}
	v = strings.TrimSpace(v)
	if code, detail := checkText(v, high); code != "" {
		q.bad(name, code, detail)
		return ""
	}
	return v
}

// option reads a parameter that must be one of values.
func option[T ~string](q *query, name string, values []T) T {
	v := q.get(name)
	if v != "" && !slices.Contains(values, T(v)) {
		q.bad(name, faultInvalidValue, oneOf(values))
		return ""
	}
	return T(v)
}

// fraction reads a number from 0 to 1, written as in JSON.
func (q *query) fraction(name string) float64 {
	v := q.get(name)
	if v == "" {
		return 0
	}
	if !jsonobject.IsNumber(v) {
		q.bad(name, faultInvalidType, "must be a number")
		return 0
	}
	x, err := strconv.ParseFloat(v, 64)
	if err != nil || x < 0 || x > 1 {
		q.bad(name, faultOutOfRange, "must be from 0 to 1")
		return 0
	}
	return x
}

// page is the part of a list that a client asks for.
type page struct {
	Limit  int
	Offset int
	offset string // as the client wrote it: it has no upper bound
}

// page reads limit and offset.
func (q *query) page() page {
	p := page{Limit: defaultLimit, offset: "0"}
	if v := q.get("limit"); v != "" {
		n, digits := whole(v)
		switch {
		case !digits:
			q.bad("limit", faultInvalidType, "must be an integer")
		case n < 1 || n > maxLimit || v[0] == '-':
			q.bad("limit", faultOutOfRange, "must be from 1 to 100")
		default:
			p.Limit = n
		}
	}
	if v := q.get("offset"); v != "" {
		n, digits := whole(v)
		switch {
		case !digits:
			q.bad("offset", faultInvalidType, "must be an integer")
		case v[0] == '-' && n > 0:
			q.bad("offset", faultOutOfRange, "must be 0 or more")
		default:
			p.Offset = min(n, maxOffset)
			if v = strings.TrimLeft(v, "-0"); v != "" {
				p.offset = v
			}
		}
	}
	return p
}

// whole returns the magnitude of an integer in decimal, at most MaxInt, or false
// if v is none.
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

// more says that the list goes on after a page that holds n of total items.
func (p page) more(n, total int) bool { return p.Offset+n < total }

// cut returns the page of a list that is in memory.
func cut[T any](p page, list []T) []T {
	from := min(p.Offset, len(list))
	return list[from:min(from+p.Limit, len(list))]
}

// writtenTime is how a time may be written; time.Parse alone also takes hours of one
// digit and a comma for the decimal point.
var writtenTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)?$`)

// timeLayouts are those forms for time.Parse, which allows any fraction of a
// second in each.
var timeLayouts = []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", time.DateOnly}

// timeForm says what is wrong with a time that is none.
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

// since reads a time. A "+" that was sent as it is arrives as a space, which cannot
// stand there for anything else.
func (q *query) since() time.Time {
	v := q.get("since")
	if v == "" {
		return time.Time{}
	}
	if i := strings.LastIndexByte(v, ' '); i > len(time.DateOnly) {
		v = v[:i] + "+" + v[i+1:]
	}
	t, ok := parseTime(v)
	if !ok {
		q.bad("since", faultFormat, timeForm)
	}
	return t
}
