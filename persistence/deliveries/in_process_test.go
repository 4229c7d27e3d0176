package deliveries

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	redistest.RunInProcess(t, 30, map[string][]string{
		"they end, stop or restart the server, or have a second one": {"TestWebhooksWithoutRedis"},
		"they measure keys by MEMORY USAGE":                          {"TestBytesOfAWebhookAreBounded"},
		"it is too slow for so many records":                         {"TestManyDeliveries"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
