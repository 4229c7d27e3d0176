package jobs

import (
	"context"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
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

// openLog returns a log that is closed when the test ends.
func openLog(t *testing.T, s *eventlog.Store, o eventlog.LogOptions) *eventlog.Log {
	l := eventlog.NewLog(s, o)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

const codecAccount = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")
