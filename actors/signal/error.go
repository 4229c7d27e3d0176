package signal

import (
	"errors"
	"strconv"
	"time"
)

// Kind says what sort of error a caller met. It decides the answer's status.
type Kind uint8

// The kinds of errors.
const (
	KindInternal     Kind = iota // anything unexpected
	KindInvalid                  // a value is not valid
	KindUnauthorized             // no credential, or one that is not valid
	KindForbidden                // a valid credential that does not suffice
	KindNotFound                 // no such thing, or another account's
	KindConflict                 // the state does not allow it
	KindMismatch                 // an Idempotency-Key came with another request
	KindTooMany                  // over a limit; see RetryAfter
	KindUnavailable              // the store cannot be reached, or the process ends; try again
	KindRunFailed                // an agent's run failed; see RunError
)

// Error is an error that a caller may see. Message is for them, Cause for the
// log. Code is the stable name of the error in answers.
type Error struct {
	Kind       Kind
	Code       string
	Message    string
	RetryAfter time.Duration // when to come back; 0 if that is not known
	Subject    string        // of KindNotFound: the kind of thing, as passed to NotFound
	Cause      error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// KindOf returns the kind of err: KindInternal if it is none of ours.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if _, ok := errors.AsType[*RunError](err); ok {
		return KindRunFailed
	}
	return KindInternal
}

// CodeOf returns the code of err: empty if it is none of ours, or a RunError.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Codes of conflicts that packages tell apart; the others are for clients only.
const (
	CodeNotOwner       = "not_owner"       // the writer does not own the partition any more
	CodeSignalChanged  = "signal_changed"  // the stored signal has other changes than the writer knows of; see StoredSequence
	CodeRolledBack     = "rolled_back"     // Redis has lost writes that it had acknowledged
	CodeDuplicateURL   = "duplicate"       // another webhook of the account has the URL
	CodeWebhookChanged = "webhook_changed" // another change of the record came first
)

// CodeTooManySignals is the code of a run that was refused because its account has as many
// open signals as it may have.
const CodeTooManySignals = "too_many_signals"

// ErrRolledBack is why an owner gives up a partition: Redis has lost writes that it had
// acknowledged, so what the owner keeps in memory may be ahead of it.
var ErrRolledBack = &Error{Kind: KindConflict, Code: CodeRolledBack, Message: "Redis has lost its newest writes"}

// storedSequence is the cause of a CodeSignalChanged.
type storedSequence int64

func (s storedSequence) Error() string {
	return "the stored signal has the sequence " + strconv.FormatInt(int64(s), 10)
}

// Changed returns the refusal of a change to a signal which is stored with another
// sequence than the one before the change.
func Changed(stored int64) *Error {
	return &Error{Kind: KindConflict, Code: CodeSignalChanged, Message: "the signal has been changed meanwhile", Cause: storedSequence(stored)}
}

// StoredSequence returns the sequence that a refusal by Changed names.
func StoredSequence(err error) (int64, bool) {
	s, ok := errors.AsType[storedSequence](err)
	return int64(s), ok
}

// NotFound returns the error of a thing that does not exist: subject is its kind, such as
// "signal".
func NotFound(subject string) *Error {
	return &Error{Kind: KindNotFound, Code: "not_found", Message: "no such " + subject, Subject: subject}
}

// Unavailable returns an error that says to try again: cause names what cannot
// be reached.
func Unavailable(cause error) *Error {
	return &Error{Kind: KindUnavailable, Code: "unavailable", RetryAfter: 5 * time.Second,
		Message: "the service cannot reach its store", Cause: cause}
}

// ErrorCode names why a run failed.
type ErrorCode string

// The error codes of runs.
const (
	DataUnavailable     ErrorCode = "DATA_UNAVAILABLE"
	StaleData           ErrorCode = "STALE_DATA"
	MarketClosed        ErrorCode = "MARKET_CLOSED"
	InsufficientHistory ErrorCode = "INSUFFICIENT_HISTORY"
	Timeout             ErrorCode = "TIMEOUT"
	Cancelled           ErrorCode = "CANCELLED"
	Internal            ErrorCode = "INTERNAL"
)

// ErrorCodes lists every error code, for metrics and the API description.
var ErrorCodes = []ErrorCode{DataUnavailable, StaleData, MarketClosed, InsufficientHistory, Timeout, Cancelled, Internal}

// RunError says why a run failed. It is stored and sent as it is: Message
// reveals nothing of the inside.
type RunError struct {
	Code       ErrorCode
	Message    string
	Retryable  bool
	RetryAfter time.Duration // when a retry may help; 0 if that is not known
	Cause      error         // for the log only
}

// Error implements error.
func (e *RunError) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Cause }
