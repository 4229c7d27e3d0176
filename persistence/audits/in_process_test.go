package audits

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 1, nil)
}

func TestMain(m *testing.M) { storetest.Main(m) }
