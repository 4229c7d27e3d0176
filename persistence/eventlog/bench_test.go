package eventlog

import (
	"cmp"
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Short names of helpers that nearly every test uses.
var (
	accountIn, take = storetest.AccountIn, storetest.Take
	logSignal       = storetest.Signal
	created, noted  = storetest.Created, storetest.Noted
	wantKind        = storetest.WantKind
	eventually      = redistest.Eventually
)

// logBench is a log on a Redis of its own.
type logBench struct {
	*testing.T
	server *redistest.Server
	store  *Store
	log    *Log
	rdb    *redis.Client
}

func newLogBench(t *testing.T, server *redistest.Server, o LogOptions) *logBench {
	t.Helper()
	return newLogBenchOn(t, server, redisclient.Options{}, o)
}

// newLogBenchOn is newLogBench with options of the connection.
func newLogBenchOn(t *testing.T, server *redistest.Server, c redisclient.Options, o LogOptions) *logBench {
	t.Helper()
	c.URL, c.Partitions, c.Log = cmp.Or(c.URL, server.URL()), 4, slog.New(slog.NewTextHandler(t.Output(), nil))
	s := openStore(t, c)
	return &logBench{T: t, server: server, store: s, log: openLog(t, s, o), rdb: server.Client()}
}

// openStore returns a store that is closed when the test ends.
func openStore(t *testing.T, o redisclient.Options) *Store {
	t.Helper()
	return New(storetest.Client(t, o))
}

// openLog returns a log that is closed when the test ends.
func openLog(t *testing.T, s *Store, o LogOptions) *Log {
	return storetest.Closing(t, NewLog(s, o))
}

// append stores c, which must succeed.
func (b *logBench) append(c signal.Change) signal.Position {
	b.Helper()
	p, err := b.log.Append(b.Context(), c)
	if err != nil {
		b.Fatalf("Append: %v", err)
	}
	return p
}

// eventsOf returns the event log of the account's partition.
func (b *logBench) eventsOf(account signal.AccountID) []signal.Event {
	b.Helper()
	events, err := b.store.ReadLog(b.Context(), b.store.Partition(account), signal.Position{}, 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	return events
}

// carryOutTogether carries out operations as one batch.
func (b *logBench) carryOutTogether(p int, operations ...*Operation) {
	b.Helper()
	if err := Together(b.Context(), b.rdb, b.store.Keys, p, operations...); err != nil {
		b.Fatal(err)
	}
}
