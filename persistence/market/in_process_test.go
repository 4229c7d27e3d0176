package market

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 10, map[string][]string{
		"it stops the server": {"TestMarketWithoutRedis"},
	})
}
