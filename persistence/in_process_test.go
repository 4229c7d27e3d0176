package persistence

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 12, map[string][]string{
		"they end, stop or restart the server, or have a second one": {
			"TestErasingWithoutRedis",
			"TestARedisThatRestartsAndLoads",
			"TestWhatIsAcknowledgedSurvivesItsMaster",
			"TestAClusterWithoutMasters",
			"TestNothingIsAcknowledgedThatReplicasLack",
		},
		"they set it up by CONFIG or ACL": {
			"TestARedisThatRefuses",
			"TestAStoreWithAWrongPassword",
			"TestARedisThatDoesNotMeasure",
		},
		"it is too slow for as much": {"TestBytesOfPartitionsAreMeasured"},
		"they start servers by themselves": {
			"TestOnCluster",
			"TestChild.*",
			"TestCommandsShare.*",
			"TestWithoutAServer.*",
			"TestDataAre.*",
			"TestRedisByTLS",
			"TestAChildHas.*",
		},
	})
}
