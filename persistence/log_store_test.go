package persistence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAppendRecordsWholeChange(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
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

func TestAppendLifeOfSignal(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
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
	if _, err := b.log.Append(t.Context(), c); !errors.Is(err, eventlog.ErrNotOpen) {
		t.Errorf("the second closing: %v, want %v", err, eventlog.ErrNotOpen)
	}
	if after := len(b.eventsOf(account)); after != before {
		t.Errorf("the second closing left %d events", after-before)
	}
	if n := b.rdb.XLen(t.Context(), redisclient.SignalsKey(b.store.Partition(account))).Val(); n != 2 {
		t.Errorf("signal log has %d entries, want 2", n)
	}
}

// TestAppendOnMiniredis: the demo without redis-server has the same log.
func TestAppendOnMiniredis(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{URL: "redis://" + miniredis.RunT(t).Addr(), Partitions: 2})
	b := &logBench{T: t, store: s, log: openLog(t, s, eventlog.LogOptions{})}
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
	err := s.ScanSignals(t.Context(), s.Partition(account), func(signal.LogEntry) error { listed++; return nil })
	if err != nil || listed != 1 {
		t.Errorf("ScanSignals gave %d entries, %v", listed, err)
	}
	if err := NewTrimmer(s, eventlog.TrimOptions{}).TrimSignals(t.Context(), s.Partition(account), 0); err != nil {
		t.Error(err)
	}
	tail := NewTail(s, eventlog.TailOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan signal.Event, 10)
	tail.Subscribe(func(_ int, events []signal.Event) {
		for _, e := range events {
			got <- e
		}
	})
	ended := make(chan error)
	go func() { ended <- tail.Run(ctx) }()
	eventually(t, tail.Attached)
	next := b.append(noted(account, "seen"))
	if e := <-got; e.Position != next || string(e.Data) != "seen" {
		t.Errorf("tail gave %v", e)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}
