package schedules

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// openStore returns the logs of a Redis, until the test ends.
func openStore(t *testing.T, o redisclient.Options) *eventlog.Store {
	t.Helper()
	c, err := redisclient.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return eventlog.New(c)
}

// leaseStore opens a store with 4 partitions on a server of the test's own.
func leaseStore(t *testing.T) (*eventlog.Store, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	return openStore(t, redisclient.Options{URL: server.URL(), Partitions: 4}), server
}

// take takes a lease that must be free.
func take(t *testing.T, s *eventlog.Store, p int, node string, ttl time.Duration) int64 {
	t.Helper()
	epoch, owner, err := s.TakeLease(t.Context(), p, node, ttl)
	if err != nil || epoch == 0 {
		t.Fatalf("%s takes partition %d: epoch %d, owner %q, %v", node, p, epoch, owner, err)
	}
	return epoch
}

// accountIn returns an account of partition p.
func accountIn(s *eventlog.Store, p int) signal.AccountID {
	for {
		if a := signal.NewAccountID(); s.Partition(a) == p {
			return a
		}
	}
}

func zAt(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMilli()), Member: member}
}
