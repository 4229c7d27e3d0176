package market

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// leaseStore returns a client of a server of the test's own.
func leaseStore(t *testing.T) (*redisclient.Client, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	c, err := redisclient.NewClient(redisclient.Options{URL: server.URL(), Partitions: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, server
}

func wantKind(t *testing.T, what string, err error, want signal.Kind) {
	t.Helper()
	if err == nil || signal.KindOf(err) != want {
		t.Errorf("%s: %v (kind %d), want kind %d", what, err, signal.KindOf(err), want)
	}
}
