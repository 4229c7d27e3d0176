package persistence

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 9, map[string][]string{
		"they end, stop or restart the server, or have a second one": {
			"TestErasingWithoutRedis",
			"TestErasingContinuesAfterARestartOfRedis",
			"TestRestartingRedis",
			"TestAcknowledgedChangesSurviveFailover",
			"TestClusterWithoutMasters",
			"TestChangesWaitForReplicas",
			"TestEachWaitFollowsAWrite",
			"TestReadsWaitForReplicas",
			"TestAFailoverToALaggingReplica",
		},
		"they set it up by CONFIG or ACL": {
			"TestRefusingRedis",
			"TestWrongRedisPassword",
			"TestSizesWithoutMemoryUsage",
		},
		"it is too slow for that many keys": {"TestBytesOfPartitionsAreMeasured"},
		"they start servers by themselves": {
			"TestOnCluster",
			"TestFailoverLosesNothingAcknowledged", "TestMasterThatComesBackDuringItsFailover",
			"TestRedisByTLS", "TestConfiguredRedis",
		},
		"it reads files only": {
			"TestEveryRightIsUsed",
		},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
