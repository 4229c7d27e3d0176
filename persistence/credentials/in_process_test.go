package credentials

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 27, map[string][]string{
		"they end, stop or restart the server, or have a second one": {
			"TestCredentialsWithoutRedis",
		},
		"it keeps what expires for a duration, so that an expiry time is off by a millisecond": {
			"TestRotateSession",
			"TestSessionIsReadAsWritten",
			"TestLockRecordsExpire",
		},
		"it is too slow for so many records": {"TestManySessionsEndInSteps", "TestPasswordChangesWithLastSessions",
			"TestReadersOfAnAccountAreLimited", "TestAnAccountIsDeletedWithItsReaders"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
