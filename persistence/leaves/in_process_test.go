package leaves

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, map[string][]string{
		"it is too slow for as much": {"TestLeavesOfSignals", "TestLeavesAreAppendedOnce"},
	})
}
