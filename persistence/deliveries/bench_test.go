package deliveries

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// Short names of helpers that nearly every test uses.
var (
	accountIn, take     = storetest.AccountIn, storetest.Take
	testWebhook         = storetest.Webhook
	testDelivery        = storetest.Delivery
	attempt, milli      = storetest.Attempted, storetest.Milli
	wantKind, wantError = storetest.WantKind, storetest.WantError
	wantPostponed, zAt  = storetest.WantPostponed, storetest.DueAt
)

const codecAccount = storetest.Account

// logBench is a log on a Redis of its own.
type logBench struct {
	*testing.T
	server *redistest.Server
	store  *eventlog.Store
	log    *eventlog.Log
	rdb    *redis.Client
}

func newLogBench(t *testing.T, server *redistest.Server, o eventlog.LogOptions) *logBench {
	t.Helper()
	s := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 4, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	return &logBench{T: t, server: server, store: s, log: openLog(t, s, o), rdb: server.Client()}
}

// openStore returns a store that is closed when the test ends.
func openStore(t *testing.T, o redisclient.Options) *eventlog.Store {
	t.Helper()
	return eventlog.New(storetest.Client(t, o))
}

// openLog returns a log that is closed when the test ends.
func openLog(t *testing.T, s *eventlog.Store, o eventlog.LogOptions) *eventlog.Log {
	return storetest.Closing(t, eventlog.NewLog(s, o))
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
func carryOutTogether(t *testing.T, rdb redis.UniversalClient, p int, operations ...*eventlog.Operation) {
	t.Helper()
	if err := eventlog.Together(t.Context(), rdb, p, operations...); err != nil {
		t.Fatal(err)
	}
}

func set(members ...string) map[string]bool {
	m := map[string]bool{}
	for _, s := range members {
		m[s] = true
	}
	return m
}
