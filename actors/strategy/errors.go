package strategy

import (
	"errors"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Errors of bars. All other errors are *signal.RunError.
var (
	ErrBadBar = errors.New("bad bar")                        // a price or a time is impossible
	ErrOldBar = errors.New("bar older than its predecessor") // it would have to be inserted
)

// insufficient returns an error for too short a history, which only time extends.
func insufficient(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.InsufficientHistory, Message: fmt.Sprintf(format, args...)}
}

// unavailable returns an error for data that may suffice later.
func unavailable(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: fmt.Sprintf(format, args...)}
}

// internal returns an error for a caller's request that does not exist, such as an
// unknown strategy.
func internal(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.Internal, Message: "internal error", Cause: fmt.Errorf(format, args...)}
}
