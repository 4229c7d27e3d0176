package signal

import (
	"errors"
	"strconv"
	"time"
)

// Kind classifies an error for its caller. It determines the status of an HTTP answer.
type Kind uint8

// The kinds of errors.
const (
	KindInternal     Kind = iota // anything unexpected
	KindInvalid                  // a value is not valid
	KindUnauthorized             // no credential, or an invalid one
	KindForbidden                // a valid credential without the right that is needed
	KindNotFound                 // it does not exist, or belongs to another account
	KindConflict                 // the current state does not allow it
	KindMismatch                 // the Idempotency-Key was used before with another request
	KindTooMany                  // over a limit; see RetryAfter
	KindUnavailable              // the store cannot be reached, or the process is shutting down; retry
	KindRunFailed                // an agent's run failed; see RunError
)

// Error is an error whose Message may be shown to the caller. Cause is for the log only.
// Code is the stable name of the error in answers.
type Error struct {
	Kind       Kind
	Code       string
	Message    string
	RetryAfter time.Duration // when to try again; 0 if unknown
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

// KindOf returns the kind of err, and KindInternal for an error that is neither an Error
// nor a RunError.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if _, ok := errors.AsType[*RunError](err); ok {
		return KindRunFailed
	}
	return KindInternal
}

// CodeOf returns the code of an Error in the chain of err, and "" without one.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Codes of conflicts on which packages of the service act. All others are for clients only.
const (
	CodeNotOwner       = "not_owner"       // the writer no longer owns the partition
	CodeExitRequested  = "exit_requested"  // the agent of the stored signal has asked for its exit, unknown to the writer
	CodeSignalChanged  = "signal_changed"  // the stored signal has changes unknown to the writer; see StoredSequence
	CodeRolledBack     = "rolled_back"     // Redis has lost writes that it had acknowledged
	CodeDuplicateURL   = "duplicate"       // another webhook of the account has the URL
	CodeAgentChanged   = "agent_changed"   // the agent of the change is not the stored one any more
	CodeWebhookChanged = "webhook_changed" // the record was changed since it was read
)

// CodeTooManySignals is the code of a run that was refused because its account has
// reached the limit of open signals.
const CodeTooManySignals = "too_many_signals"

// CodeAgentPaused is the code of a run that was refused because its agent has failed several times in a row.
const CodeAgentPaused = "agent_paused"

// ErrRolledBack makes an owner give up its partition: Redis has lost acknowledged writes,
// so the state that the owner keeps in memory may be ahead of the store.
var ErrRolledBack = &Error{Kind: KindConflict, Code: CodeRolledBack, Message: "Redis has lost its newest writes"}

// storedSequence is the cause of an error with CodeSignalChanged.
type storedSequence int64

func (s storedSequence) Error() string {
	return "the stored signal has the sequence " + strconv.FormatInt(int64(s), 10)
}

// Changed returns the error of a change to a signal whose stored sequence, given by
// stored, is not the one that the writer expected.
func Changed(stored int64) *Error {
	return &Error{
		Kind:    KindConflict,
		Code:    CodeSignalChanged,
		Message: "the signal has been changed meanwhile",
		Cause:   storedSequence(stored),
	}
}

// StoredSequence returns the stored sequence from an error made by Changed.
func StoredSequence(err error) (int64, bool) {
	s, ok := errors.AsType[storedSequence](err)
	return int64(s), ok
}

// NotFound returns the error of a thing that does not exist: subject is its kind, such as
// "signal".
func NotFound(subject string) *Error {
	return &Error{Kind: KindNotFound, Code: "not_found", Message: "no such " + subject, Subject: subject}
}

// Unavailable returns an error that asks the caller to retry. cause is for the log.
func Unavailable(cause error) *Error {
	return &Error{Kind: KindUnavailable, Code: "unavailable", RetryAfter: 5 * time.Second,
		Message: "the service cannot reach its store", Cause: cause}
}

// Stopping returns the error of Unavailable for a node that is about to stop.
func Stopping(cause error) *Error {
	e := Unavailable(cause)
	e.Message = "this node is about to stop: ask another one, or try again when it is back"
	return e
}

// ErrorCode is the class of a run's failure.
type ErrorCode string

// The error codes of runs.
const (
	DataUnavailable     ErrorCode = "DATA_UNAVAILABLE"
	StaleData           ErrorCode = "STALE_DATA"
	MarketClosed        ErrorCode = "MARKET_CLOSED"
	InsufficientHistory ErrorCode = "INSUFFICIENT_HISTORY"
	Timeout             ErrorCode = "TIMEOUT"
	AgentUnreachable    ErrorCode = "AGENT_UNREACHABLE"   // an account's agent refused the question, or no connection was made
	AgentTimeout        ErrorCode = "AGENT_TIMEOUT"       // it has not answered in time
	AgentReplyInvalid   ErrorCode = "AGENT_REPLY_INVALID" // its answer cannot be read
	Cancelled           ErrorCode = "CANCELLED"
	Internal            ErrorCode = "INTERNAL"
)

// ErrorCodes lists every error code, for metrics and the API description.
var ErrorCodes = []ErrorCode{
	DataUnavailable,
	StaleData,
	MarketClosed,
	InsufficientHistory,
	Timeout,
	AgentUnreachable,
	AgentTimeout,
	AgentReplyInvalid,
	Cancelled,
	Internal,
}

// RunError is the reason why a run failed. It is stored and sent as it is, so Message
// must not reveal internals.
type RunError struct {
	Code       ErrorCode
	Message    string
	Retryable  bool
	RetryAfter time.Duration // when a retry may succeed; 0 if unknown
	Cause      error         // for the log only
	// Passing is set if this process could not run the agent for the moment, for a reason that has
	// nothing to do with the request: it passes by itself, and another process may not have it. It is
	// not stored.
	Passing bool
}

// Error implements error.
func (e *RunError) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Cause }
