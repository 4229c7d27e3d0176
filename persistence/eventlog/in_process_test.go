package eventlog

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// notInProcess has, by their reason, the tests that the store inside a process does not
// pass, or which have nothing to do with it.
var notInProcess = map[string][]string{
	"they end, stop or restart the server, or have a second one": {
		"TestAppendAfterLostReplies",
		"TestTailHeadAndWait",
		"TestTailCloseEndsQuestions",
		"TestTailAcrossRestart",
		"TestAppendWhileDown",
		"TestAppendAcrossKill",
		"TestAppendLimits",
	},
	"they set it up by CONFIG or ACL": {
		"TestAppendOutOfMemory",
	},
	"they read its INFO commandstats": {
		"TestHeadShares",
	},
	"they restore a stream by DUMP, which it has for strings only": {
		"TestTailKnowsWhatItsProcessHasAppended",
		"TestTailGoesBackWithRedis",
		"TestTailGoesBackBeyondItsAttachment",
	},
	"its XINFO STREAM has no entries-added and no last-generated-id of removed entries, so that who resumes far back is not promised all": {
		"TestRetains",
		"TestTailPassesRemovedEnd",
	},
	"it is too slow for as much": {
		"TestTrimEvents",
	},
	"they start servers by themselves": {
		"TestTheStoreInsideAProcess",
	},
}

// The store inside a process, which serves where no redis-server is installed, passes the
// tests of this package, too.
func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, notInProcess, 25)
}
