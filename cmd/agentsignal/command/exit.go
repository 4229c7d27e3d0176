package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// Exit codes of failures. A command that checks something ends with ExitFailed if the check
// found something, and with ExitUnable if the check could not run; scripts can distinguish the two.
const (
	ExitFailed = 1
	ExitUnable = 2
)

// ExitCodes is the part of the help of a checking command that explains its exit codes.
const ExitCodes = "Exit codes: 0 verified; 1 it does not verify, with the reason; 2 it could not be checked, as\n" +
	"with a wrong command line or a file that cannot be read."

// annotation marks checking commands.
const annotation = "agentsignal/checks"

// Checks marks c as a command that checks something.
func Checks(c *cobra.Command) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[annotation] = "true"
}

// Finding is the error of a check that was made and has found something.
type Finding struct{ Err error }

// Error implements error.
func (f *Finding) Error() string { return f.Err.Error() }

// Unwrap returns what was found.
func (f *Finding) Unwrap() error { return f.Err }

// Exit is an error with an exit code of its own.
type Exit struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Exit) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *Exit) Unwrap() error { return e.Err }

// ExitCode returns the exit code for the error of a command.
func ExitCode(c *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Exit](err); ok {
		return e.Code
	}
	if _, found := errors.AsType[*Finding](err); !found && c != nil && c.Annotations[annotation] != "" {
		return ExitUnable
	}
	return ExitFailed
}
