package command

import "errors"

// Exit is an error with the exit code of the process.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	if e, ok := errors.AsType[*Exit](err); ok {
		return e.Code
	}
	return 1
}
