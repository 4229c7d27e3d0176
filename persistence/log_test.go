package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
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
	s := openStore(t, Options{URL: server.URL(), Partitions: 4, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	return &logBench{T: t, server: server, store: s, log: OpenLog(t, s, o), rdb: server.Client()}
}

// OpenStore returns a store that is closed when the test ends.
func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// OpenLog returns a log that is closed when the test ends.
func OpenLog(t *testing.T, s *Store, o LogOptions) *Log {
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

// Noted returns a change of one event that says text.
func Noted(account signal.AccountID, text string) signal.Change {
	return signal.Change{Account: account, Events: []signal.Event{{Type: signal.SystemNotification, Data: []byte(text)}}}
}

func TestAppendRecordsWholeChange(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	p := b.store.Partition(account)
	s := logSignal(account)
	b.append(signal.Change{Account: account, Due: &signal.RunDue{Run: s.Run, Agent: "trading", At: s.CreatedAt},
		Events: []signal.Event{{Type: signal.AgentStarted, Agent: "trading", Run: s.Run, Data: []byte(`{}`)}}})
	if n := b.rdb.ZCard(t.Context(), redisclient.RunsDueKey(p)).Val(); n != 1 {
		t.Fatalf("%d runs are due, want 1", n)
	}

	c := created(s)
	c.Ended = s.Run
	c.Reply = &signal.Reply{ReplyKey: signal.ReplyKey{Method: "POST", Path: "/v1/agents/trading/run", Key: "k"}, Status: 200}
	at := b.append(c)

	got := b.eventsOf(account)
	listing := s.Listing()
	listing.CreatedAt = at.Time()
	want := []signal.Event{got[0],
		{Position: at, ID: got[1].ID, Account: account, Type: signal.SignalCreated, Asset: "BTC", Listing: &listing, Data: []byte(`{"signal":1}`)},
		{Position: at.Plus(1), ID: got[2].ID, Account: account, Type: signal.AgentCompleted, Agent: "trading", Run: s.Run, Data: []byte(`{"run":1}`)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event log (-want +got):\n%s", diff)
	}
	if got[1].ID == "" || got[1].ID == got[2].ID {
		t.Errorf("events have the ids %q and %q", got[1].ID, got[2].ID)
	}
	if n := b.rdb.ZCard(t.Context(), redisclient.RunsDueKey(p)).Val(); n != 0 {
		t.Errorf("%d runs are due after the end, want 0", n)
	}
	stored, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	wantSignal := *s
	wantSignal.CreatedAt, wantSignal.UpdatedAt, wantSignal.ExpiresAt = at.Time(), at.Time(), at.Time().Add(24*time.Hour)
	wantSignal.Sequence, wantSignal.FirstConfidence = 1, s.Confidence
	if diff := cmp.Diff(&wantSignal, stored); diff != "" {
		t.Errorf("signal (-want +got):\n%s", diff)
	}
	reply, err := b.store.Claim(t.Context(), account, c.Reply.ReplyKey)
	if err != nil || reply == nil {
		t.Fatalf("Claim after the append = %v, %v; want the reply", reply, err)
	}
	if diff := cmp.Diff(&wantSignal, reply.Signal); diff != "" {
		t.Errorf("signal of the reply (-want +got):\n%s", diff)
	}
}

func TestAppendPositionWithoutEvents(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	before := time.Now().Add(-time.Second)
	reply := &signal.Reply{ReplyKey: signal.ReplyKey{Key: "k"}, Status: 200, Body: []byte("{}")}
	at := b.append(signal.Change{Account: account, Reply: reply})
	if at.Time().Before(before) || at.Time().After(time.Now().Add(time.Second)) {
		t.Errorf("a change without events is at %v", at)
	}
	if got := b.eventsOf(account); len(got) != 0 {
		t.Errorf("event log has %v", got)
	}
}

func TestAppendLifeOfSignal(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	s := logSignal(account)
	at := b.append(created(s))

	updated := *s
	updated.Confidence, updated.Sequence, updated.FirstConfidence, updated.MFE, updated.MAE = .66, 2, s.Confidence, .5, -.25
	updated.Metadata = nil
	changed := b.append(signal.Change{Account: account, Signal: &updated, Events: []signal.Event{{Type: signal.SignalUpdated, Asset: "BTC", Data: []byte(`{}`)}}})
	got, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	want := updated
	want.Metadata, want.CreatedAt, want.UpdatedAt, want.ExpiresAt = s.Metadata, at.Time(), changed.Time(), at.Time().Add(24*time.Hour)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("updated signal (-want +got):\n%s", diff)
	}
	err = b.store.OpenSignals(t.Context(), b.store.Partition(account), func(open signal.Signal, where signal.Position) error {
		want := want
		want.Metadata = nil
		if diff := cmp.Diff(want, open); diff != "" || where != at {
			t.Errorf("open signal at %v, want %v (-want +got):\n%s", where, at, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	exit, percent, absolute := 66275.125, 3.1517, 2025.0
	closing := updated
	closing.Sequence, closing.Confidence, closing.MFE = 3, .98, 1.5
	closing.Metadata = []byte(`{"resolved_by":"backfill"}`)
	closing.Closing = &signal.Closing{Reason: signal.TakeProfit, At: at.Time().Add(time.Second), ExitPrice: &exit, PnLPercent: &percent,
		PnLAbsolute: &absolute, DurationMinutes: 272}
	c := signal.Change{Account: account, Signal: &closing, Events: []signal.Event{{Type: signal.SignalClosed, Asset: "BTC", Data: []byte(`{}`)}}}
	end := b.append(c)
	want.Sequence, want.Confidence, want.MFE, want.Closing, want.UpdatedAt = 3, .98, 1.5, closing.Closing, end.Time()
	want.Metadata = []byte(`{"indicators":["adx_14"],"reasoning":"because","resolved_by":"backfill"}`)
	for name, closed := range map[string]signal.Position{"where it was closed": end, "as if it were open": {}} {
		got, err := b.store.SignalByID(t.Context(), account, s.ID, at, closed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("closed signal read %s (-want +got):\n%s", name, diff)
		}
	}

	before := len(b.eventsOf(account))
	if _, err := b.log.Append(t.Context(), c); !errors.Is(err, errNotOpen) {
		t.Errorf("the second closing: %v, want %v", err, errNotOpen)
	}
	if after := len(b.eventsOf(account)); after != before {
		t.Errorf("the second closing left %d events", after-before)
	}
	if n := b.rdb.XLen(t.Context(), redisclient.SignalsKey(b.store.Partition(account))).Val(); n != 2 {
		t.Errorf("signal log has %d entries, want 2", n)
	}
}

// TestAnOwnersChangeIsStoredOnce: one that is tried again, because nobody knew how it
// ended, is refused, and one that follows it is not.
func TestAnOwnersChangeIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	b.rdb.Set(t.Context(), redisclient.EpochKey(b.store.Partition(account)), 7, 0)
	s := logSignal(account)
	b.append(created(s))
	before := len(b.eventsOf(account))
	for i, c := range []struct {
		sequence int64
		typ      signal.EventType
		want     error
		stored   int64 // of a refusal
	}{
		{3, signal.SignalUpdated, errChanged, 1}, {2, signal.SignalUpdated, nil, 0}, {2, signal.SignalUpdated, errChanged, 2},
		{2, signal.SignalClosed, errChanged, 2}, {3, signal.SignalUpdated, nil, 0}, {200, signal.SignalClosed, errChanged, 3},
		{4, signal.SignalClosed, nil, 0}, {4, signal.SignalClosed, errNotOpen, 0},
	} {
		next := *s
		next.Sequence = c.sequence
		if c.typ == signal.SignalClosed {
			next.Closing = &signal.Closing{Reason: signal.Expired, At: time.Now()}
		}
		_, err := b.log.Append(t.Context(), signal.Change{Account: account, Signal: &next, Epoch: 7, Events: []signal.Event{{Type: c.typ}}})
		if signal.CodeOf(err) != signal.CodeOf(c.want) {
			t.Errorf("change %d: %v, want %v", i, err, c.want)
		}
		if stored, known := signal.StoredSequence(err); known != (c.want == errChanged) || stored != c.stored {
			t.Errorf("change %d: the refusal tells of the sequence %d, want %d", i, stored, c.stored)
		}
	}
	if n := len(b.eventsOf(account)) - before; n != 3 {
		t.Errorf("%d events, want 3", n)
	}
	long := logSignal(account)
	long.Sequence = 300
	b.append(created(long))
	next := *long
	next.Sequence = 300
	_, err := b.log.Append(t.Context(), signal.Change{Account: account, Signal: &next, Epoch: 7, Events: []signal.Event{{Type: signal.SignalUpdated}}})
	if stored, _ := signal.StoredSequence(err); stored != 300 {
		t.Errorf("the refusal tells of the sequence %d, want 300", stored)
	}
}

func TestAppendInOrder(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := signal.NewAccountID()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			last := signal.Position{}
			for k := range 30 {
				p, err := b.log.Append(t.Context(), Noted(account, fmt.Sprintf("%d %d", i, k)))
				if err != nil || p.Compare(last) <= 0 {
					t.Errorf("Append = %v, %v after %v", p, err, last)
					return
				}
				last = p
			}
		})
	}
	wg.Wait()
	var next [32]int
	for _, e := range b.eventsOf(account) {
		var i, k int
		fmt.Sscan(string(e.Data), &i, &k)
		if k != next[i] {
			t.Fatalf("event %d of caller %d comes where %d should", k, i, next[i])
		}
		next[i]++
	}
	for i, n := range next {
		if n != 30 {
			t.Errorf("caller %d has %d events, want 30", i, n)
		}
	}
}

// TestAppendOnMiniredis: the demo without redis-server has the same log.
func TestAppendOnMiniredis(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{URL: "redis://" + miniredis.RunT(t).Addr(), Partitions: 2})
	b := &logBench{T: t, store: s, log: OpenLog(t, s, LogOptions{})}
	account := signal.NewAccountID()
	sig := logSignal(account)
	at := b.append(created(sig))
	if n := len(b.eventsOf(account)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	if _, err := s.SignalByID(t.Context(), account, sig.ID, at, signal.Position{}); err != nil {
		t.Error(err)
	}
	listed := 0
	err := s.ScanSignals(t.Context(), s.Partition(account), func(SignalEntry) error { listed++; return nil })
	if err != nil || listed != 1 {
		t.Errorf("ScanSignals gave %d entries, %v", listed, err)
	}
	if err := NewTrimmer(s, TrimOptions{}).TrimSignals(t.Context(), s.Partition(account), 0); err != nil {
		t.Error(err)
	}
	tail := NewTail(s, TailOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan signal.Event, 10)
	tail.Subscribe(func(_ int, events []signal.Event) {
		for _, e := range events {
			got <- e
		}
	})
	ended := make(chan error)
	go func() { ended <- tail.Run(ctx) }()
	Eventually(t, tail.Attached)
	next := b.append(Noted(account, "seen"))
	if e := <-got; e.Position != next || string(e.Data) != "seen" {
		t.Errorf("tail gave %v", e)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}
