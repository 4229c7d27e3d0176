package deliveries

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
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
	wantEqual           = storetest.WantEqual
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

func newLogBench(t *testing.T) *logBench {
	t.Helper()
	server, output := redistest.New(t), slog.New(slog.NewTextHandler(t.Output(), nil))
	s := eventlog.New(storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 4, Log: output}))
	log := storetest.Closing(t, eventlog.NewLog(s, eventlog.LogOptions{}))
	return &logBench{t, server, s, log, server.Client()}
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

func set(members ...string) map[string]bool {
	m := map[string]bool{}
	for _, s := range members {
		m[s] = true
	}
	return m
}
