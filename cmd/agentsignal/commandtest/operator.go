package commandtest

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Run runs a command of the program with the standard input in, and returns its output and
// its error.
type Run func(ctx context.Context, in io.Reader, args ...string) (out, errs string, err error)

// InProcess returns a Run that executes a new root each time.
func InProcess(root func() *cobra.Command) Run {
	return func(ctx context.Context, in io.Reader, args ...string) (string, string, error) {
		var out, errs Journal
		c := root()
		c.SetArgs(args)
		c.SetIn(in)
		c.SetOut(&out)
		c.SetErr(&errs)
		err := c.ExecuteContext(ctx)
		return out.String(), errs.String(), err
	}
}

// Operator runs commands with the same settings.
type Operator struct {
	tb       testing.TB
	run      Run
	settings []string
}

// NewOperator returns an operator that gives each command the settings.
func NewOperator(tb testing.TB, run Run, settings ...string) Operator {
	return Operator{tb, run, settings}
}

// StoreSettings returns the settings for the Redis at url, or for the one in the data
// directory if url is empty.
func StoreSettings(tb testing.TB, url, dataDir string) []string {
	tb.Helper()
	if url == "" {
		return []string{"--data-dir", dataDir}
	}
	return []string{"--config", Written(tb, "redis:\n  url: "+url+"\n")}
}

// Try runs a command; in is its standard input.
func (o Operator) Try(in string, args ...string) (string, error) {
	o.tb.Helper()
	out, _, err := o.run(o.tb.Context(), strings.NewReader(in), slices.Concat(o.settings, args)...)
	return out, err
}

// Do runs a command that must succeed, and returns its output.
func (o Operator) Do(args ...string) string {
	o.tb.Helper()
	out, err := o.Try("", args...)
	if err != nil {
		o.tb.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Fails runs a command that must fail with an error that contains part.
func (o Operator) Fails(part string, args ...string) {
	o.tb.Helper()
	out, err := o.Try("", args...)
	if err == nil || !strings.Contains(err.Error(), part) {
		o.tb.Errorf("%s: wrote %q and ended with %v, want an error with %q", strings.Join(args, " "), out, err, part)
	}
}
