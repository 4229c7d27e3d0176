package command

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodesOfChecks(t *testing.T) {
	t.Parallel()
	check, other := &cobra.Command{}, &cobra.Command{}
	Checks(check)
	broken := errors.New("broken")
	found := fmt.Errorf("file: %w", &Finding{broken})
	for _, row := range []struct {
		c    *cobra.Command
		err  error
		want int
	}{{check, nil, 0}, {check, found, 1}, {check, broken, 2}, {other, broken, 1}, {other, found, 1}, {nil, broken, 1},
		{check, &Exit{3, broken}, 3}, {nil, fmt.Errorf("x: %w", &Exit{3, broken}), 3}} {
		if got := ExitCode(row.c, row.err); got != row.want {
			t.Errorf("exit code %d of %v, want %d", got, row.err, row.want)
		}
	}
	if !errors.Is(found, broken) {
		t.Error("a finding hides its error")
	}
}
