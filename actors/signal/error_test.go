package signal

import (
	"errors"
	"fmt"
	"testing"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want Kind
	}{
		"none of ours":    {errors.New("x"), KindInternal},
		"ours":            {NotFound("signal"), KindNotFound},
		"wrapped":         {fmt.Errorf("read: %w", Unavailable(errors.New("x"))), KindUnavailable},
		"of a run":        {&RunError{Code: StaleData}, KindRunFailed},
		"of a run, inner": {fmt.Errorf("run: %w", &RunError{Code: Timeout}), KindRunFailed},
		"ours of a run's": {&Error{Kind: KindConflict, Cause: &RunError{}}, KindConflict},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%s: kind %d, want %d", name, got, c.want)
		}
	}
}
