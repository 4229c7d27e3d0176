package outcomes

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 4, map[string][]string{
		"it is too slow for as much": {"TestOldOutcomesAreTrimmed"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
