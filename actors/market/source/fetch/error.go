package fetch

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknown reports that a server does not know the asset in a request. Each client recognises the
// answers by which its server reports that.
var ErrUnknown = errors.New("the source does not know the asset")

// Kind is the kind of an Error.
type Kind string

// The kinds, which are the values of the label "result" beside "ok".
const (
	Network Kind = "network"      // no answer, or one that broke off
	Limited Kind = "rate_limited" // 429
	Banned  Kind = "banned"       // 418
	Server  Kind = "server_error" // 5xx
	Refused Kind = "client_error" // any other status
	Content Kind = "content"      // of another type than requested, or not decodable
	Large   Kind = "too_large"
	Resting Kind = "resting" // not sent, because the server asked for rest or keeps failing
)

// Kinds lists them.
var Kinds = []Kind{Network, Limited, Banned, Server, Refused, Content, Large, Resting}

// Error is the reason for a missing answer.
type Error struct {
	Source string // the client's name
	Kind   Kind
	Status int // of HTTP; 0 without an answer
	// RetryAfter is when a retry makes sense; 0 if not known.
	RetryAfter time.Duration
	Body       []byte // the start of the body that came with an error
	Cause      error  // may be nil
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s", e.Source, e.Kind)
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", ask again in %s", e.RetryAfter.Round(time.Second))
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
