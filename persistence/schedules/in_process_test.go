package schedules

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, nil)
}

func TestMain(m *testing.M) { storetest.Main(m) }
