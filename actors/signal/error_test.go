package signal

import (
	"errors"
	"fmt"
	"testing"
)

func TestKindAndCodeOfErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		kind Kind
		code string
	}{
		"other":             {errors.New("x"), KindInternal, ""},
		"domain":            {NotFound("signal"), KindNotFound, "not_found"},
		"wrapped":           {fmt.Errorf("read: %w", Unavailable(errors.New("x"))), KindUnavailable, "unavailable"},
		"of a run":          {&RunError{Code: StaleData}, KindRunFailed, ""},
		"of a run, wrapped": {fmt.Errorf("run: %w", &RunError{Code: Timeout}), KindRunFailed, ""},
		"caused by a run":   {&Error{Kind: KindConflict, Code: "c", Cause: &RunError{}}, KindConflict, "c"},
	} {
		if kind, code := KindOf(c.err), CodeOf(c.err); kind != c.kind || code != c.code {
			t.Errorf("%s: kind %d and code %q, want %d and %q", name, kind, code, c.kind, c.code)
		}
	}
}
