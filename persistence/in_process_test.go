package persistence

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// notInProcess has, by their reason, the tests that the store inside a process does not
// pass, or which have nothing to do with it.
var notInProcess = map[string][]string{
	"they end, stop or restart the server, or have a second one": {"TestAppendAfterLostReplies", "TestWebhooksWithoutRedis", "TestTailHeadAndWait", "TestTailCloseEndsQuestions",
		"TestTailAcrossRestart", "TestAppendWaitsForReplicas", "TestReadyWaitsForReplicas", "TestMarketSaysThatRedisIsAway", "TestAppendWhileDown",
		"TestAppendAcrossKill", "TestAppendLimits", "TestTakeTokensFromAStoppedRedis", "TestInstallationFixesThePartitions", "TestJobsWithoutRedis",
		"TestARedisThatRestartsAndLoads", "TestCredentialsSayThatRedisIsAway", "TestARepeatedBatchWaitsForReplicas",
		"TestWhatIsAcknowledgedSurvivesItsMaster", "TestAClusterWithoutMasters", "TestARepeatedRequestWaitsForReplicas", "TestNothingIsAcknowledgedThatReplicasLack"},
	"they set it up by CONFIG or ACL":   {"TestARedisThatRefuses", "TestAStoreWithAWrongPassword", "TestAppendOutOfMemory", "TestARedisThatDoesNotMeasure"},
	"they measure keys by MEMORY USAGE": {"TestBytesOfAWebhookAreBounded"},
	"they read its INFO commandstats":   {"TestHeadShares"},
	"they restore a stream by DUMP, which it has for strings only": {"TestTailKnowsWhatItsProcessHasAppended", "TestTailGoesBackWithRedis",
		"TestTailGoesBackBeyondItsAttachment"},
	"its XINFO STREAM has no entries-added and no last-generated-id of removed entries, so that who resumes far back is not promised all": {
		"TestRetains", "TestTailPassesRemovedEnd"},
	"it keeps what expires for a duration, so that a time to expire at is off by a millisecond": {"TestRotateSession", "TestSessionIsReadAsWritten", "TestLockRecordsExpire",
		"TestARepeatedBatchIsAWrite"},
	"it is too slow for as much": {"TestManyDeliveries", "TestTrimEvents", "TestManySessionsEndInSteps", "TestBytesOfPartitionsAreMeasured"},
	"they start servers by themselves": {"TestOnCluster", "TestCluster.*", "TestChild.*", "TestCommandsShare.*", "TestWithoutAServer.*", "TestDataAre.*", "TestRedisByTLS", "TestAChildHas.*",
		"TestTheStoreInsideAProcess"},
}

// The store inside a process, which serves where no redis-server is installed, passes the
// tests of this package, too.
func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(os.Args[0], "-test.list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	var skipped []string
	for _, names := range notInProcess {
		for _, name := range names {
			skipped = append(skipped, "^"+name+"$")
			if !strings.Contains(name, "*") && !slices.Contains(known, name) {
				t.Errorf("%s is no test of this package", name)
			}
		}
	}
	suite := exec.Command(os.Args[0], "-test.run", "^Test", "-test.skip", strings.Join(skipped, "|"), "-test.v")
	suite.Env = append(os.Environ(), redistest.Variable+"="+redistest.InProcess)
	out, err = suite.CombinedOutput()
	passed := strings.Count(string(out), "\n--- PASS: ")
	if err != nil {
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") && !strings.Contains(line, "level=") {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
		t.Fatalf("%v; %d tests passed. A test that needs what only a server process can do is to be listed in notInProcess", err, passed)
	}
	if passed < 100 {
		t.Errorf("only %d tests were run", passed)
	}
}
