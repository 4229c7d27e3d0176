package persistence

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// openStore returns a store that is closed when the test ends.
func openStore(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Client.Close() })
	return s
}

// leaseStore opens a store with 4 partitions on a server of the test's own.
func leaseStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	server := redistest.New(t)
	return openStore(t, Options{URL: server.URL(), Partitions: 4}), server
}

// openLog returns a log that is closed when the test ends.
func openLog(t *testing.T, s *Store, o eventlog.LogOptions) *eventlog.Log {
	return storetest.Closing(t, eventlog.NewLog(s.Logs, o))
}

// take takes the lease of partition p for a minute.
func take(t *testing.T, s *Store, p int) int64 {
	t.Helper()
	return storetest.Take(t, s.Logs.Leases, p, "a", time.Minute)
}

// errOf and errOf2 return the error of a call without its results.
func errOf[T any](_ T, err error) error          { return err }
func errOf2[T, U any](_ T, _ U, err error) error { return err }
