package signals

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 11, map[string][]string{
		"blocks need to know how many entries a log ever got": {
			"TestBlocks", "TestMarksInBlocks", "TestDamagedBlocks", "TestBlocksOfOtherBuilds", "TestWhoMayCompact",
		},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
