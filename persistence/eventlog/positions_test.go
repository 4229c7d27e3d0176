package eventlog

import (
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// TestNoPositionIsStoredBeyondTheLog: the next events, of a master whose clock is behind,
// would be skipped.
func TestNoPositionIsStoredBeyondTheLog(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	epoch := take(t, b.store.Leases, 0, "a", time.Minute)
	end := b.append(noted(accountIn(b.store, 0), "end"))
	for _, beyond := range []signal.Position{end.Plus(1), {MS: end.MS + 1}} {
		err := b.store.Positions.StoreOwnerPosition(t.Context(), 0, epoch, beyond)
		storetest.WantError(t, err, signal.KindConflict, signal.CodeRolledBack)
	}
	if err := b.store.Positions.StoreOwnerPosition(t.Context(), 0, epoch, end); err != nil {
		t.Errorf("the end of the log: %v", err)
	}
	if got, err := b.store.Positions.OwnerPosition(t.Context(), 0); got != end || err != nil {
		t.Errorf("stored %v, %v, want %v", got, err, end)
	}
	before := signal.Position{MS: end.MS - 1, Seq: end.Seq + 1}
	if err := b.store.Positions.StoreOwnerPosition(t.Context(), 0, epoch, before); err != nil {
		t.Errorf("before the end of the log, with a greater sequence: %v", err)
	}
	b.rdb.XTrimMaxLen(t.Context(), b.store.EventsKey(0), 0)
	if err := b.store.Positions.StoreOwnerPosition(t.Context(), 0, epoch, end); err != nil {
		t.Errorf("after trimming: %v", err)
	}
}

// One look finds the partitions whose logs go on, of many that have no new events.
func TestContinuedLogs(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	after := map[int]signal.Position{}
	for p := range b.store.Partitions() {
		after[p] = signal.Position{}
	}
	wantContinued := func(want ...int) {
		t.Helper()
		got, err := b.store.Positions.ContinuedLogs(t.Context(), after)
		slices.Sort(got)
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	wantContinued()
	first := b.append(noted(accountIn(b.store, 1), "first"))
	b.append(noted(accountIn(b.store, 3), "other"))
	wantContinued(1, 3)
	after[1] = first
	wantContinued(3)
	delete(after, 3)
	wantContinued()
	b.append(noted(accountIn(b.store, 1), "second"))
	wantContinued(1)
	clear(after)
	wantContinued()
}
