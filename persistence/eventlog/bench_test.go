package eventlog

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
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
	s := openStore(t, redisclient.Options{URL: server.URL(), Partitions: 4, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	return &logBench{T: t, server: server, store: s, log: openLog(t, s, o), rdb: server.Client()}
}

// openStore returns a store that is closed when the test ends.
func openStore(t *testing.T, o redisclient.Options) *Store {
	t.Helper()
	c, err := redisclient.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return New(c)
}

// openLog returns a log that is closed when the test ends.
func openLog(t *testing.T, s *Store, o LogOptions) *Log {
	l := NewLog(s, o)
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
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

// logSignal returns a new signal of account.
func logSignal(account signal.AccountID) *signal.Signal {
	created := time.UnixMilli(1795253400000).UTC()
	return &signal.Signal{ID: signal.NewSignalID(), Account: account, Agent: "trading", Run: signal.NewRunID(), Asset: "BTC",
		Strategy: "momentum", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long, Confidence: .4372,
		Levels:   &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		Metadata: []byte(`{"indicators":["adx_14"],"reasoning":"because"}`), CreatedAt: created, ExpiresAt: created.Add(24 * time.Hour)}
}

// created returns the change that creates s, as a run ends with it.
func created(s *signal.Signal) signal.Change {
	return signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{
		{Type: signal.SignalCreated, Asset: s.Asset, Data: []byte(`{"signal":1}`)},
		{Type: signal.AgentCompleted, Agent: s.Agent, Run: s.Run, Data: []byte(`{"run":1}`)}}}
}

// noted returns a change of one event that says text.
func noted(account signal.AccountID, text string) signal.Change {
	return signal.Change{Account: account, Events: []signal.Event{{Type: signal.SystemNotification, Data: []byte(text)}}}
}

func wantKind(t *testing.T, what string, err error, want signal.Kind) {
	t.Helper()
	if err == nil || signal.KindOf(err) != want {
		t.Errorf("%s: %v (kind %d), want kind %d", what, err, signal.KindOf(err), want)
	}
}

// accountIn returns an account of partition p.
func accountIn(s *Store, p int) signal.AccountID {
	for {
		if a := signal.NewAccountID(); s.Partition(a) == p {
			return a
		}
	}
}

// carryOutTogether carries out operations as one batch.
func carryOutTogether(t *testing.T, rdb redis.UniversalClient, p int, operations ...*Operation) {
	t.Helper()
	if err := Together(t.Context(), rdb, p, operations...); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come about")
		}
	}
}

const codecAccount = signal.AccountID("acc_01M7YQ1WTVKN9DZNWV9NV456V1")
