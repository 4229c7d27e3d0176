package signals

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestAppendLifeOfSignal(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	account := signal.NewAccountID()
	s := storetest.Signal(account)
	at := b.append(storetest.Created(s))
	wantOpened(t, b, account, s.ID)

	updated := *s
	updated.Confidence, updated.Sequence, updated.FirstConfidence = .66, 2, .4512 // by a new forecast
	updated.MFE, updated.MAE, updated.Metadata = .5, -.25, nil
	changed := b.change(&updated, signal.SignalUpdated)
	got, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{})
	if err != nil {
		t.Fatal(err)
	}
	want := updated
	want.FirstConfidence = s.Confidence // as in the answer of the run, whatever has followed
	want.Metadata, want.CreatedAt, want.UpdatedAt = s.Metadata, at.Time(), changed.Time()
	want.ExpiresAt = at.Time().Add(24 * time.Hour)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("updated signal (-want +got):\n%s", diff)
	}
	p := b.store.Partition(account)
	err = b.store.OpenSignals(t.Context(), p, func(open signal.Signal, where signal.Position) error {
		want := want
		want.Metadata, want.FirstConfidence = nil, updated.FirstConfidence
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
	closing.Closing = &signal.Closing{
		Reason: signal.TakeProfit, At: at.Time().Add(time.Second), DurationMinutes: 272,
		ExitPrice: &exit, PnLPercent: &percent, PnLAbsolute: &absolute,
	}
	end := b.change(&closing, signal.SignalClosed)
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

	before := b.rdb.XLen(t.Context(), b.store.EventsKey(p)).Val()
	again := signal.Change{Account: account, Signal: &closing, Events: []signal.Event{{Type: signal.SignalClosed}}}
	if _, err := b.log.Append(t.Context(), again); !errors.Is(err, eventlog.ErrNotOpen) {
		t.Errorf("the second closing: %v, want %v", err, eventlog.ErrNotOpen)
	}
	if after := b.rdb.XLen(t.Context(), b.store.EventsKey(p)).Val(); after != before {
		t.Errorf("the second closing left %d events", after-before)
	}
	if n := b.rdb.XLen(t.Context(), b.store.SignalsKey(p)).Val(); n != 2 {
		t.Errorf("signal log has %d entries, want 2", n)
	}
}

// wantOpened checks that the event of a new signal has all of the signal that Redis has.
func wantOpened(t *testing.T, b *logBench, account signal.AccountID, id signal.SignalID) {
	t.Helper()
	p := b.store.Partition(account)
	open, err := b.store.OpenSignalsOf(t.Context(), p, []signal.SignalID{id})
	if err != nil || len(open) != 1 {
		t.Fatalf("open are %+v, %v", open, err)
	}
	events, err := b.store.ReadLog(t.Context(), p, signal.Position{}, 10)
	if err != nil || len(events) == 0 {
		t.Fatalf("events are %+v, %v", events, err)
	}
	opened, ok := events[0].Opened()
	if !ok {
		t.Fatalf("the event opened no signal: %+v", events[0])
	}
	if diff := cmp.Diff(open[0], opened); diff != "" {
		t.Errorf("signal (-in Redis +of the event):\n%s", diff)
	}
}

func TestSignalByIDOfOthers(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	account := storetest.AccountIn(b.store, 0)
	s := storetest.Signal(account)
	at := b.append(storetest.Created(s))
	for name, c := range map[string]struct {
		account         signal.AccountID
		id              signal.SignalID
		created, closed signal.Position
	}{
		"another account":                {storetest.AccountIn(b.store, 0), s.ID, at, signal.Position{}},
		"another signal":                 {account, signal.NewSignalID(), at, signal.Position{}},
		"another position":               {account, s.ID, at.Plus(1), signal.Position{}},
		"a position without its closing": {account, s.ID, at, at.Plus(1)},
	} {
		_, err := b.store.SignalByID(t.Context(), c.account, c.id, c.created, c.closed)
		storetest.WantKind(t, name, err, signal.KindNotFound)
	}
	// Erased, but never closed.
	b.rdb.Del(t.Context(), b.store.OpenKey(0))
	_, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{})
	storetest.WantKind(t, "neither open nor closed", err, signal.KindNotFound)
}
