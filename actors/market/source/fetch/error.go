package fetch

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknown reports that a server does not have what it was asked about. Clients of servers
// return it where those say so in words of their own.
var ErrUnknown = errors.New("the source does not know the asset")

// Kind is what went wrong.
type Kind string

// The kinds, which are the values of the label "result" beside "ok".
const (
	Network Kind = "network"      // no answer, or one that broke off
	Limited Kind = "rate_limited" // 429
	Banned  Kind = "banned"       // 418
	Server  Kind = "server_error" // 5xx
	Refused Kind = "client_error" // any other status: the request is wrong
	Content Kind = "content"      // another type than was asked for, or not decodable
	Large   Kind = "too_large"
	Resting Kind = "resting" // not asked, because the server wants rest or fails
)

// Kinds lists them.
var Kinds = []Kind{Network, Limited, Banned, Server, Refused, Content, Large, Resting}

// Error is why there is no answer.
type Error struct {
	Source string // the client's name
	Kind   Kind
	Status int // of HTTP; 0 without an answer
	// RetryAfter is when it makes sense to ask again; 0 if that is not known.
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

// Temporary reports whether the same request may have another answer later.
func (e *Error) Temporary() bool { return e.Kind != Refused || e.Status == 403 || e.Status == 408 }
