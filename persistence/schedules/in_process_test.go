package schedules

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, nil)
}
