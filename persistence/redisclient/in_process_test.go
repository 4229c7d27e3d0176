package redisclient

import (
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestStoreInProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 6, map[string][]string{
		"they stop the server, change its settings, have several, or a cluster": {
			"TestOptionsTimeoutBoundsCommands", "TestReadyWaitsForReplicas", "TestConfirmRead",
			"TestANewInstallationWaitsForReplicas", "TestClusterIsReadyWithAllMasters", "TestClusterCommandIsSentOnce",
			"TestCheckServer", "TestRisks", "TestInspect", "TestAllConnectionsAreCounted",
		},
	})
}
