package request

import (
	"fmt"
	"slices"
	"strings"
)

// The codes of single faults inside an invalid_request. Checks of URLs have further ones.
const (
	CodeRequired     = "required"
	CodeInvalidType  = "invalid_type"
	CodeInvalidValue = "invalid_value"
	CodeOutOfRange   = "out_of_range"
	CodeTooLong      = "too_long"
	CodeTooShort     = "too_short"
	CodeFormat       = "invalid_format"
	CodeUnknown      = "unknown_field"
	CodeDuplicate    = "duplicate"
)

// maxFaults limits the faults in one answer; a body of 1 MiB could hold 200,000.
const maxFaults = 100

// Place is the member of a fault in an answer that names where the fault is.
type Place string

// The places of faults.
const (
	InBody   Place = "pointer"   // a JSON Pointer into the body; "" is the body itself
	InQuery  Place = "parameter" // the name of a query parameter
	InHeader Place = "header"    // the name of a header
)

// Fault describes one value of a request that is not valid.
type Fault struct {
	In     Place
	Name   string
	Code   string
	Detail string // for people; holds nothing that the client sent
}

// Faults collects the faults of a request, so that the answer lists all at once. The zero
// value is ready.
type Faults struct {
	list     []Fault
	unlisted int // beyond maxFaults
	failed   error
}

// Fail records that the request could not be checked, of which the faults say nothing.
func (f *Faults) Fail(err error) { f.failed = err }

// Add records a fault. Beyond a hundred, faults are only counted.
func (f *Faults) Add(in Place, name, code, detail string) {
	if len(f.list) == maxFaults {
		f.unlisted++
		return
	}
	f.list = append(f.list, Fault{in, name, code, detail})
}

// Body records a fault at a JSON Pointer.
func (f *Faults) Body(pointer, code, detail string) { f.Add(InBody, pointer, code, detail) }

// At reports whether a fault of the member at a JSON Pointer is listed.
func (f *Faults) At(pointer string) bool { return f.has(InBody, pointer) }

func (f *Faults) has(in Place, name string) bool {
	return slices.ContainsFunc(f.list, func(one Fault) bool { return one.In == in && one.Name == name })
}

// Any reports whether a fault was recorded.
func (f *Faults) Any() bool { return len(f.list) > 0 }

// Err returns an *InvalidError with the recorded faults, the error of Fail, or nil.
func (f *Faults) Err() error {
	if f.failed != nil {
		return f.failed
	}
	if !f.Any() {
		return nil
	}
	return &InvalidError{Faults: f.list, Unlisted: f.unlisted}
}

// InvalidError is the error of a request that is not valid: 400 invalid_request.
type InvalidError struct {
	Faults   []Fault
	Unlisted int // the number of further faults
}

// Error implements error.
func (e *InvalidError) Error() string {
	switch n := len(e.Faults) + e.Unlisted; {
	case e.Unlisted > 0:
		return fmt.Sprintf("%d values are not valid; the first %d are listed.", n, len(e.Faults))
	case n == 1:
		return "1 value is not valid."
	default:
		return fmt.Sprintf("%d values are not valid.", n)
	}
}

// OneOf is the detail of a value outside an enumeration.
func OneOf[T ~string](values []T) string { return "must be one of: " + Joined(values) }

// SomeOf is the detail of a list with values outside an enumeration.
func SomeOf[T ~string](values []T) string { return "must be a list of some of: " + Joined(values) }

// NotEmpty is the detail of a text that is empty.
const NotEmpty = "must have at least 1 character"

// AtMost is the detail of a text with more than n characters.
func AtMost(n int) string { return fmt.Sprintf("must have at most %d characters", n) }

// Joined lists values with commas.
func Joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}
