package http

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
)

const (
	maxBodyBytes     = 1 << 20
	maxAuthBodyBytes = 64 << 10
	// maxMembers is how many members of one object are looked at; no object of
	// the API has more than ten.
	maxMembers = 256
	// firstRead is how much of a body is made room for before any of it came.
	firstRead = 4 << 10
)

// readBody returns the body of the request: 415 if it is not declared as JSON,
// 413 if it is longer than limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	if !isJSON(r.Header) {
		return nil, errMediaType
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	room := int64(firstRead)
	if 0 < r.ContentLength && r.ContentLength < room {
		room = r.ContentLength
	}
	// A client that sends slowly holds its connection for so long only. Without a
	// deadline a run may then take longer than the body did.
	deadline := http.NewResponseController(w)
	_ = deadline.SetReadDeadline(time.Now().Add(within)) // a test's recorder has none
	body := bytes.NewBuffer(make([]byte, 0, room+bytes.MinRead))
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(limit)
		}
		var f faults
		f.body("", faultFormat, "the body could not be read to its end")
		return nil, errors.Join(f.err(), err)
	}
	_ = deadline.SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

// isJSON says that the body is declared as JSON, or not declared.
func isJSON(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	switch values := h["Content-Type"]; {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return true
	case len(values) > 1:
		return false
	case values[0] == typeJSON: // nearly always
		return true
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return false
	}
	sub, ok := strings.CutPrefix(media, "application/")
	return ok && (sub == "json" || strings.HasSuffix(sub, "+json") && len(sub) > len("+json"))
}

// object is an object of a request's body. Its methods read a member each: they
// note what is wrong with it, and return false if it is wrong, absent or null.
// When all are read, close notes the members that nobody asked for.
type object struct {
	pointer string // JSON Pointer of the object
	faults  *faults
	members []member
	asked   []string // the names of the members that were asked for
}

type member struct {
	name  []byte // without escapes
	value []byte // the JSON of it
	taken bool
}

// decodeObject reads a body, which must be one JSON object. It returns nil, with
// the fault noted, if it is not.
func decodeObject(body []byte, f *faults) *object {
	if len(bytes.TrimSpace(body)) == 0 {
		f.body("", faultFormat, "a body is required and must be a JSON object")
		return nil
	}
	if err := jsonobject.Check(body); err != nil {
		f.body("", faultFormat, "malformed JSON: "+err.Error())
		return nil
	}
	body = jsonobject.Trim(body)
	if body[0] != '{' {
		f.body("", faultInvalidType, "must be an object")
		return nil
	}
	return newObject("", body, f)
}

// decodeOptional is decodeObject for a body that may be left out; it is then an empty
// object.
func decodeOptional(body []byte, f *faults) *object {
	if len(body) == 0 {
		return &object{faults: f}
	}
	return decodeObject(body, f)
}

// newObject finds the members of value, which is a valid object.
func newObject(pointer string, value []byte, f *faults) *object {
	o := &object{pointer: pointer, faults: f, members: make([]member, 0, 8), asked: make([]string, 0, 12)}
	for name, value := range jsonobject.Members(value) {
		if len(o.members) == maxMembers {
			f.body(pointer, faultTooLong, fmt.Sprintf("must not have more than %d members", maxMembers))
			return o
		}
		o.add(name, value)
	}
	return o
}

func (o *object) add(name, value []byte) {
	for _, m := range o.members {
		if bytes.Equal(m.name, name) {
			o.faults.body(o.at(string(name)), faultDuplicate, "is given more than once")
			return
		}
	}
	o.members = append(o.members, member{name: name, value: value})
}

// at returns the JSON Pointer of a member.
func (o *object) at(name string) string {
	if strings.ContainsAny(name, "~/") {
		name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return o.pointer + "/" + name
}

// bad notes a fault of a member.
func (o *object) bad(name, code, detail string) { o.faults.body(o.at(name), code, detail) }

// take returns the JSON of a member, or nil if it is absent or null.
func (o *object) take(name string) []byte {
	if !slices.Contains(o.asked, name) {
		o.asked = append(o.asked, name)
	}
	for i := range o.members {
		m := &o.members[i]
		if string(m.name) != name {
			continue
		}
		m.taken = true
		if m.value[0] == 'n' {
			return nil
		}
		return m.value
	}
	return nil
}

// require notes that a member must be given, if it is absent or null, and what it must
// be: "must be one of: …".
func (o *object) require(name, rule string) {
	if o.take(name) == nil {
		o.bad(name, faultRequired, name+" is required and "+rule)
	}
}

// text reads a string.
func (o *object) text(name string) (string, bool) {
	v := o.take(name)
	if v == nil {
		return "", false
	}
	if v[0] != '"' {
		o.bad(name, faultInvalidType, "must be a string")
		return "", false
	}
	return string(jsonobject.Text(v)), true
}

// boolean reads true or false.
func (o *object) boolean(name string) (value, ok bool) {
	v := o.take(name)
	if v == nil {
		return false, false
	}
	if v[0] != 't' && v[0] != 'f' {
		o.bad(name, faultInvalidType, "must be true or false")
		return false, false
	}
	return v[0] == 't', true
}

// integer reads a whole number from low to high, both less than 2^53.
func (o *object) integer(name string, low, high int64) (int64, bool) {
	v := o.take(name)
	if v == nil {
		return 0, false
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		o.bad(name, faultInvalidType, "must be an integer")
		return 0, false
	}
	x, err := strconv.ParseFloat(string(v), 64) // exact below 2^53
	if err == nil && x != math.Trunc(x) {
		o.bad(name, faultInvalidType, "must be an integer")
		return 0, false
	}
	if err != nil || x < float64(low) || x > float64(high) {
		o.bad(name, faultOutOfRange, fmt.Sprintf("must be from %d to %d", low, high))
		return 0, false
	}
	return int64(x), true
}

// time reads a time; see parseTime.
func (o *object) time(name string) (time.Time, bool) {
	text, ok := o.text(name)
	if !ok {
		return time.Time{}, false
	}
	t, ok := parseTime(text)
	if !ok {
		o.bad(name, faultFormat, timeForm)
	}
	return t, ok
}

// object reads an object.
func (o *object) object(name string) (*object, bool) {
	v := o.take(name)
	if v == nil {
		return nil, false
	}
	if v[0] != '{' {
		o.bad(name, faultInvalidType, "must be an object")
		return nil, false
	}
	return newObject(o.at(name), v, o.faults), true
}

// texts reads an array of strings, at most limit of them. rule is what it must be.
// Faults of items are noted at their own pointers.
func (o *object) texts(name string, limit int, rule string, check func(item string) (code, detail string)) ([]string, bool) {
	v := o.take(name)
	if v == nil {
		return nil, false
	}
	if v[0] != '[' {
		o.bad(name, faultInvalidType, rule)
		return nil, false
	}
	list, ok := []string{}, true
	for item := range jsonobject.Items(v) {
		if len(list) == limit {
			o.bad(name, faultTooLong, fmt.Sprintf("must not have more than %d items", limit))
			return nil, false
		}
		// Anything but a string stands in the list as one that check accepts; the request is
		// refused anyway.
		text, code, detail := "?", faultInvalidType, "must be a string"
		if item[0] == '"' {
			text = string(jsonobject.Text(item))
			code, detail = check(text)
		}
		if code != "" {
			o.faults.body(o.at(name)+"/"+strconv.Itoa(len(list)), code, detail)
			ok = false
		}
		list = append(list, text)
	}
	return list, ok
}

// choice reads a string that must be one of values.
func choice[T ~string](o *object, name string, values []T) (T, bool) {
	v := o.take(name)
	if v == nil {
		return "", false
	}
	if v[0] != '"' {
		o.bad(name, faultInvalidType, oneOf(values))
		return "", false
	}
	text := T(jsonobject.Text(v))
	if !slices.Contains(values, text) {
		o.bad(name, faultInvalidValue, oneOf(values))
		return "", false
	}
	return text, true
}

// close notes the members that were not read: names are case-sensitive.
func (o *object) close() {
	for _, m := range o.members {
		if m.taken {
			continue
		}
		detail := ""
		if len(o.faults.list) < maxFaults { // else it is not listed
			detail = unknownName("member", string(m.name), o.asked)
		}
		o.bad(string(m.name), faultUnknown, detail)
	}
}

// checkText says what is wrong with a trimmed text that must have 1 to high
// characters and no control characters; an empty code says nothing is.
func checkText(s string, high int) (code, detail string) {
	if n := utf8.RuneCountInString(s); n == 0 {
		return faultTooShort, "must have at least 1 character"
	} else if n > high {
		return faultTooLong, fmt.Sprintf("must have at most %d characters", high)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return faultFormat, "must not have control characters"
	}
	return "", ""
}
