package leaves

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 5, map[string][]string{
		"it is too slow for as much":           {"TestLeavesOfSignals", "TestLeavesAreAppendedOnce"},
		"its XINFO STREAM lacks entries-added": {"TestShortenedLogsAreFound"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
