package eventlog

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 35, map[string][]string{
		"they end, stop or restart the server, or have a second one": {
			"TestAppendAfterLostReplies",
			"TestAppendToASlowServer",
			"TestAppendAfterAnOutageToASlowServer",
			"TestTailHeadAndWait",
			"TestTailCloseEndsQuestions",
			"TestTailAcrossRestart",
			"TestAppendWhileDown",
			"TestAppendAcrossKill",
			"TestAppendLimits",
			"TestAppendWaitsForReplicas",
			"TestRepeatedBatchWaitsForReplicas",
			"TestNothingIsWrittenWhileReplicasAreMissing",
			"TestWritesGoOnAfterAnOutageAndMissingReplicas",
			"TestChangesAreAcceptedWithoutReplicas",
			"TestTailWithholdsWhatReplicasLack",
			"TestWaitEndsWhereEventsAreWithheld",
			"TestLostEventsReachNoSubscriber",
			"TestConfirmedEventsAreHandedOnWithoutAWait",
			"TestTailPassesEventsRemovedBeforeReplicasHadThem",
			"TestInstallationFixesThePartitions",
			"TestLeasesOfANode",
		},
		"they set it up by CONFIG or ACL": {"TestAppendOutOfMemory"},
		"they read its INFO commandstats": {"TestHeadShares"},
		"they restore a stream by DUMP, which it supports for strings only": {
			"TestTailDetectsLossOfOwnEvents",
			"TestTailRollsBack",
			"TestTailRollsBackBeforeAttachment",
		},
		"its XINFO STREAM lacks entries-added and the last-generated-id of removed entries": {
			"TestRetains",
			"TestTailPassesRemovedEnd",
			"TestDeletedEventLogIsReported",
		},
		"it is too slow for so many records": {"TestTrimEvents"},
		"it keeps what expires for a duration, so that an expiry time is off by a millisecond": {
			"TestRepeatedBatchWrites",
		},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
