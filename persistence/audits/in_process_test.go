package audits

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 1, nil)
}
