package jobs

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 12, map[string][]string{
		"they stop the server or set it up by ACL": {"TestJobsWithoutRedis", "TestPollingIsRefused"},
	})
}

func TestMain(m *testing.M) { storetest.Main(m) }
