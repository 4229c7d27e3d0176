package market

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 10, map[string][]string{
		"it stops the server": {"TestMarketWithoutRedis"},
		"XINFO of the store in the process has no first entry": {"TestTicksThatWereTrimmedOrLostAreNotKept"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
