package strategy

import (
	"errors"
	"fmt"
	"time"

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

// JumpError reports a bar that opens too far from the close before it.
type JumpError struct {
	Bar int64   // its open time in milliseconds
	ATR float64 // the distance in ATR14
}

// Error implements error.
func (e *JumpError) Error() string {
	return fmt.Sprintf("the bar of %s opens %.0f ATR from the close before it",
		time.UnixMilli(e.Bar).UTC().Format(time.RFC3339), e.ATR)
}
