package deliveries

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

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

// eventsOf returns the event log of the account's partition.
func (b *logBench) eventsOf(account signal.AccountID) []signal.Event {
	b.Helper()
	events, err := b.store.ReadLog(b.Context(), b.store.Partition(account), signal.Position{}, 1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	return events
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

func wantKind(t *testing.T, what string, err error, want signal.Kind) {
	t.Helper()
	if err == nil || signal.KindOf(err) != want {
		t.Errorf("%s: %v (kind %d), want kind %d", what, err, signal.KindOf(err), want)
	}
}

// carryOutTogether carries out operations as one batch.
func carryOutTogether(t *testing.T, rdb redis.UniversalClient, p int, operations ...*eventlog.Operation) {
	t.Helper()
	if err := eventlog.Together(t.Context(), rdb, p, operations...); err != nil {
		t.Fatal(err)
	}
}

// wantPostponed demands that an entry that could not be read is still there, and due later.
func wantPostponed(t *testing.T, s *eventlog.Store, key, member string, until time.Time) {
	t.Helper()
	score, err := s.RDB.ZScore(t.Context(), key, member).Result()
	if want := until.Add(redisclient.UnreadableAfter); err != nil || codec.TimeOfMilli(int64(score)).Before(want) {
		t.Errorf("an entry of %s that cannot be read is due at %v, %v; want not before %v", key, codec.TimeOfMilli(int64(score)), err, want)
	}
}

const codecAccount = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")

// wantError demands a kind and a code.
func wantError(t *testing.T, err error, kind signal.Kind, code string) {
	t.Helper()
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != kind || e.Code != code {
		t.Errorf("got error %v, want kind %d, code %q", err, kind, code)
	}
}

func zAt(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMilli()), Member: member}
}

func set(members ...string) map[string]bool {
	m := map[string]bool{}
	for _, s := range members {
		m[s] = true
	}
	return m
}
