package http

import (
	"fmt"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/credentials"
)

// The codes of single faults inside an invalid_request. Addresses has further ones.
const (
	faultRequired     = "required"
	faultInvalidType  = "invalid_type"
	faultInvalidValue = "invalid_value"
	faultOutOfRange   = "out_of_range"
	faultTooLong      = "too_long"
	faultTooShort     = "too_short"
	faultFormat       = "invalid_format"
	faultUnknown      = "unknown_field"
	faultDuplicate    = "duplicate"
)

// maxFaults is how many faults one answer lists; a body of 1 MiB could hold
// 200,000.
const maxFaults = 100

// place is the name of the member of a fault that says where it lies.
type place string

const (
	inBody   place = "pointer"   // a JSON Pointer into the body; "" is the body itself
	inQuery  place = "parameter" // the name of a query parameter
	inHeader place = "header"    // the name of a header
)

// fault is one value of a request that is not valid.
type fault struct {
	In     place
	Name   string
	Code   string
	Detail string // for people; holds nothing that the client sent
}

// faults collects what is wrong with a request, so that the client hears of all
// of it at once. The zero value is ready.
type faults struct {
	list []fault
	left int // found but not listed
}

func (f *faults) add(in place, name, code, detail string) {
	if len(f.list) == maxFaults {
		f.left++
		return
	}
	f.list = append(f.list, fault{in, name, code, detail})
}

// body notes a fault at a JSON Pointer.
func (f *faults) body(pointer, code, detail string) { f.add(inBody, pointer, code, detail) }

// any says that something was noted.
func (f *faults) any() bool { return len(f.list) > 0 }

// err returns what was noted as an error, or nil if nothing was.
func (f *faults) err() error {
	if !f.any() {
		return nil
	}
	return &invalidError{list: f.list, left: f.left}
}

// invalidError is a request that is not valid: 400 invalid_request.
type invalidError struct {
	list []fault
	left int
}

func (e *invalidError) Error() string {
	switch n := len(e.list) + e.left; {
	case e.left > 0:
		return fmt.Sprintf("%d values are not valid; the first %d are listed.", n, len(e.list))
	case n == 1:
		return "1 value is not valid."
	default:
		return fmt.Sprintf("%d values are not valid.", n)
	}
}

// oneOf is the detail of a value outside an enumeration, someOf that of a list of them.
func oneOf[T ~string](values []T) string  { return "must be one of: " + joined(values) }
func someOf[T ~string](values []T) string { return "must be a list of some of: " + joined(values) }

// joined lists values with commas.
func joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

// asInvalid returns the faults behind an error of the kind KindInvalid that
// another package raised. Such an error has no pointer, so it concerns the body.
func asInvalid(e *signal.Error) *invalidError {
	return &invalidError{list: []fault{{inBody, "", faultInvalidValue, e.Message}}}
}

// invalidCredentials returns the faults that the credentials found in a body.
func invalidCredentials(e credentials.ValidationError) *invalidError {
	var f faults
	for _, field := range e {
		f.body("/"+field.Field, field.Code, field.Detail)
	}
	return &invalidError{list: f.list, left: f.left}
}
