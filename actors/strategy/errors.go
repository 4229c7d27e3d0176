package strategy

import (
	"errors"
	"fmt"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Errors of bars. Others are *signal.RunError.
var (
	ErrBadBar = errors.New("bad bar")                        // a price or a time is not possible
	ErrOldBar = errors.New("bar older than its predecessor") // it would have to be inserted
)

// insufficient says that there is too little history. Only time helps.
func insufficient(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.InsufficientHistory, Message: fmt.Sprintf(format, args...)}
}

// unavailable says that the data do not suffice now and may later.
func unavailable(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: fmt.Sprintf(format, args...)}
}

// internal says that a caller asked for what does not exist.
func internal(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.Internal, Message: "internal error", Cause: fmt.Errorf(format, args...)}
}
