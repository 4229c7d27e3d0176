package deliveries

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// notInProcess has, by their reason, the tests that the store inside a process does not
// pass, or which have nothing to do with it.
var notInProcess = map[string][]string{
	"they end, stop or restart the server, or have a second one": {
		"TestWebhooksWithoutRedis",
	},
	"they measure keys by MEMORY USAGE": {
		"TestBytesOfAWebhookAreBounded",
	},
	"it is too slow for as much": {
		"TestManyDeliveries",
	},
	"it starts servers by itself": {
		"TestTheStoreInsideAProcess",
	},
}

// The store inside a process, which serves where no redis-server is installed, passes the
// tests of this package, too.
func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, notInProcess, 30)
}
