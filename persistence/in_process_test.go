package persistence

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// notInProcess has, by their reason, the tests that the store inside a process does not
// pass, or which have nothing to do with it.
var notInProcess = map[string][]string{
	"they end, stop or restart the server, or have a second one": {
		"TestErasingWithoutRedis",
		"TestAppendWaitsForReplicas",
		"TestReadyWaitsForReplicas",
		"TestTakeTokensFromAStoppedRedis",
		"TestInstallationFixesThePartitions",
		"TestARedisThatRestartsAndLoads",
		"TestARepeatedBatchWaitsForReplicas",
		"TestWhatIsAcknowledgedSurvivesItsMaster",
		"TestAClusterWithoutMasters",
		"TestARepeatedRequestWaitsForReplicas",
		"TestNothingIsAcknowledgedThatReplicasLack",
	},
	"they set it up by CONFIG or ACL": {
		"TestARedisThatRefuses",
		"TestAStoreWithAWrongPassword",
		"TestARedisThatDoesNotMeasure",
	},
	"it keeps what expires for a duration, so that a time to expire at is off by a millisecond": {
		"TestARepeatedBatchIsAWrite",
	},
	"it is too slow for as much": {
		"TestBytesOfPartitionsAreMeasured",
	},
	"they start servers by themselves": {
		"TestOnCluster",
		"TestCluster.*",
		"TestChild.*",
		"TestCommandsShare.*",
		"TestWithoutAServer.*",
		"TestDataAre.*",
		"TestRedisByTLS",
		"TestAChildHas.*",
		"TestTheStoreInsideAProcess",
	},
}

// The store inside a process, which serves where no redis-server is installed, passes the
// tests of this package, too.
func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, notInProcess, 40)
}
