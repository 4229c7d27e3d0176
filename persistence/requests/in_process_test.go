package requests

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 8, map[string][]string{
		"they stop the server or have a second one": {
			"TestTakeTokensFromAStoppedRedis",
			"TestRepeatedRequestWaitsForReplicas",
			"TestALockEndsSoonAfterACut",
		},
		"they read its INFO commandstats": {"TestALockLastsAsLongAsItsRequest"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
