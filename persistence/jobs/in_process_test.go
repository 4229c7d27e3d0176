package jobs

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// notInProcess has, by their reason, the tests that the store inside a process does not
// pass, or which have nothing to do with it.
var notInProcess = map[string][]string{
	"they end, stop or restart the server, or have a second one": {
		"TestJobsWithoutRedis",
	},
	"it starts servers by itself": {
		"TestTheStoreInsideAProcess",
	},
}

// The store inside a process, which serves where no redis-server is installed, passes the
// tests of this package, too.
func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, notInProcess, 12)
}
