package request

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/jsonobject"
)

// maxMembers limits the members of one object that are read; no object of the API has more
// than ten.
const maxMembers = 256

// Object is an object in the body of a request. Each method reads one member: it records a
// fault of it, and returns false if it is wrong, absent or null. When all are read, Close
// records the unknown members.
type Object struct {
	pointer string // JSON Pointer of the object
	faults  *Faults
	members []member
	asked   []string // the names of known members
}

type member struct {
	name  []byte // without escapes
	value []byte // the JSON of it
	taken bool
}

// ReadObject reads a body, which must be one JSON object. Otherwise it records the fault and
// returns nil.
func ReadObject(body []byte, f *Faults) *Object {
	if len(bytes.TrimSpace(body)) == 0 {
		f.Body("", CodeFormat, "a body is required and must be a JSON object")
		return nil
	}
	if err := jsonobject.Check(body); err != nil {
		f.Body("", CodeFormat, "malformed JSON: "+err.Error())
		return nil
	}
	body = jsonobject.Trim(body)
	if body[0] != '{' {
		f.Body("", CodeInvalidType, "must be an object")
		return nil
	}
	return newObject("", body, f)
}

// ReadOptional is ReadObject for a body that may be absent, which is an empty object.
func ReadOptional(body []byte, f *Faults) *Object {
	if len(body) == 0 {
		return &Object{faults: f}
	}
	return ReadObject(body, f)
}

// newObject returns the object in value, which must be valid JSON.
func newObject(pointer string, value []byte, f *Faults) *Object {
	o := &Object{pointer: pointer, faults: f, members: make([]member, 0, 8), asked: make([]string, 0, 12)}
	for name, value := range jsonobject.Members(value) {
		if len(o.members) == maxMembers {
			f.Body(pointer, CodeTooLong, fmt.Sprintf("must not have more than %d members", maxMembers))
			return o
		}
		o.add(name, value)
	}
	return o
}

func (o *Object) add(name, value []byte) {
	for _, m := range o.members {
		if bytes.Equal(m.name, name) {
			o.faults.Body(o.at(string(name)), CodeDuplicate, "is given more than once")
			return
		}
	}
	o.members = append(o.members, member{name: name, value: value})
}

// at returns the JSON Pointer of a member.
func (o *Object) at(name string) string {
	if strings.ContainsAny(name, "~/") {
		name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return o.pointer + "/" + name
}

// Bad records a fault of a member.
func (o *Object) Bad(name, code, detail string) { o.faults.Body(o.at(name), code, detail) }

// take returns the JSON of a member, or nil if it is absent or null.
func (o *Object) take(name string) []byte {
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

// Require records a fault if a member is absent or null. rule is its detail: "must be one
// of: …".
func (o *Object) Require(name, rule string) {
	if !o.Has(name) {
		o.Bad(name, CodeRequired, name+" is required and "+rule)
	}
}

// Has reports whether a member is given and not null.
func (o *Object) Has(name string) bool { return o.take(name) != nil }

// Null reports whether a member is given as null, for members whose null means something else than absence.
func (o *Object) Null(name string) bool {
	return !o.Has(name) && slices.ContainsFunc(o.members, func(m member) bool { return string(m.name) == name })
}

// Given reads a string that must be given and not be empty. rule is the detail of its fault.
func (o *Object) Given(name, rule string) string {
	text, ok := o.Text(name)
	if ok && text == "" || !o.Has(name) {
		o.Bad(name, CodeRequired, name+" is required and "+rule)
	}
	return text
}

// Text reads a string.
func (o *Object) Text(name string) (string, bool) {
	v := o.take(name)
	if v == nil {
		return "", false
	}
	if v[0] != '"' {
		o.Bad(name, CodeInvalidType, "must be a string")
		return "", false
	}
	return string(jsonobject.Text(v)), true
}

// Bool reads true or false.
func (o *Object) Bool(name string) (value, ok bool) {
	v := o.take(name)
	if v == nil {
		return false, false
	}
	if v[0] != 't' && v[0] != 'f' {
		o.Bad(name, CodeInvalidType, "must be true or false")
		return false, false
	}
	return v[0] == 't', true
}

// Integer reads a whole number from low to high, both less than 2^53.
func (o *Object) Integer(name string, low, high int64) (int64, bool) {
	v := o.take(name)
	if v == nil {
		return 0, false
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		o.Bad(name, CodeInvalidType, "must be an integer")
		return 0, false
	}
	x, err := strconv.ParseFloat(string(v), 64) // exact below 2^53
	if err == nil && x != math.Trunc(x) {
		o.Bad(name, CodeInvalidType, "must be an integer")
		return 0, false
	}
	if err != nil || x < float64(low) || x > float64(high) {
		o.Bad(name, CodeOutOfRange, fmt.Sprintf("must be from %d to %d", low, high))
		return 0, false
	}
	return int64(x), true
}

// Number reads a number from low to high.
func (o *Object) Number(name string, low, high float64) (float64, bool) {
	v := o.take(name)
	if v == nil {
		return 0, false
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		o.Bad(name, CodeInvalidType, "must be a number")
		return 0, false
	}
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil || x < low || x > high {
		o.Bad(name, CodeOutOfRange, fmt.Sprintf("must be from %g to %g", low, high))
		return 0, false
	}
	return x, true
}

// Time reads a time: RFC 3339 with any offset, without an offset (UTC), or a date (midnight
// UTC).
func (o *Object) Time(name string) (time.Time, bool) {
	text, ok := o.Text(name)
	if !ok {
		return time.Time{}, false
	}
	t, ok := parseTime(text)
	if !ok {
		o.Bad(name, CodeFormat, timeForm)
	}
	return t, ok
}

// Object reads an object.
func (o *Object) Object(name string) (*Object, bool) {
	v := o.take(name)
	if v == nil {
		return nil, false
	}
	if v[0] != '{' {
		o.Bad(name, CodeInvalidType, "must be an object")
		return nil, false
	}
	return newObject(o.at(name), v, o.faults), true
}

// RawObject returns the text of an object, whose members are not read.
func (o *Object) RawObject(name string) ([]byte, bool) {
	v := o.take(name)
	if v == nil {
		return nil, false
	}
	if v[0] != '{' {
		o.Bad(name, CodeInvalidType, "must be an object")
		return nil, false
	}
	return v, true
}

// Texts reads an array of at most limit strings. rule is the detail of a value of another
// type. The faults that check returns are recorded at the pointers of the items.
func (o *Object) Texts(
	name string, limit int, rule string, check func(item string) (code, detail string),
) ([]string, bool) {
	v := o.take(name)
	if v == nil {
		return nil, false
	}
	if v[0] != '[' {
		o.Bad(name, CodeInvalidType, rule)
		return nil, false
	}
	list, ok := []string{}, true
	for item := range jsonobject.Items(v) {
		if len(list) == limit {
			o.Bad(name, CodeTooLong, fmt.Sprintf("must not have more than %d items", limit))
			return nil, false
		}
		// A placeholder keeps the indexes right; the request is refused anyway.
		text, code, detail := "?", CodeInvalidType, "must be a string"
		if item[0] == '"' {
			text = string(jsonobject.Text(item))
			code, detail = check(text)
		}
		if code != "" {
			o.faults.Body(o.at(name)+"/"+strconv.Itoa(len(list)), code, detail)
			ok = false
		}
		list = append(list, text)
	}
	return list, ok
}

// Choice reads a string that must be one of values.
func Choice[T ~string](o *Object, name string, values []T) (T, bool) {
	v := o.take(name)
	if v == nil {
		return "", false
	}
	if v[0] != '"' {
		o.Bad(name, CodeInvalidType, OneOf(values))
		return "", false
	}
	text := T(jsonobject.Text(v))
	if !slices.Contains(values, text) {
		o.Bad(name, CodeInvalidValue, OneOf(values))
		return "", false
	}
	return text, true
}

// Close records the unknown members. Names are case-sensitive.
func (o *Object) Close() {
	for _, m := range o.members {
		if m.taken {
			continue
		}
		detail := ""
		if len(o.faults.list) < maxFaults { // otherwise it is not listed
			detail = unknownName("member", string(m.name), o.asked)
		}
		o.Bad(string(m.name), CodeUnknown, detail)
	}
}

// CheckText returns the fault of a trimmed text that must have 1 to maxLength characters and
// no control characters, or empty strings.
func CheckText(s string, maxLength int) (code, detail string) {
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		return CodeTooShort, NotEmpty
	case n > maxLength:
		return CodeTooLong, AtMost(maxLength)
	case strings.ContainsFunc(s, unicode.IsControl):
		return CodeFormat, "must not have control characters"
	}
	return "", ""
}
