package persistence

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestTheFeedersEpochIsNewAfterALoss: else the feeders before and after it would both pass
// for the present one.
func TestTheFeedersEpochIsNewAfterALoss(t *testing.T) {
	t.Parallel()
	m, rdb, first := newMarketBench(t)
	if err := rdb.Set(t.Context(), redisclient.FeederEpochKey(), first-1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	rdb.Del(t.Context(), redisclient.FeederKey())
	eventually(t, func() bool { return rdb.Time(t.Context()).Val().UnixMilli() > first })
	second, _, err := m.TakeLease(t.Context(), "other", time.Minute)
	if err != nil || second <= first {
		t.Errorf("epoch %d after %d, %v", second, first, err)
	}
	err = m.Store(t.Context(), &marketdata.Step{Epoch: first, Checkpoint: []byte("x")})
	if signal.KindOf(err) != signal.KindConflict {
		t.Errorf("the feeder from before the loss stores: %v", err)
	}
}

// TestNoPositionIsStoredBeyondTheLog: what comes next, from a master whose clock is behind,
// would be passed over.
func TestNoPositionIsStoredBeyondTheLog(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
	epoch := take(t, b.store, 0, "a", time.Minute)
	end := b.append(noted(accountIn(b.store, 0), "end"))
	for _, beyond := range []signal.Position{end.Plus(1), {MS: end.MS + 1}} {
		err := b.store.StoreEnginePosition(t.Context(), 0, epoch, beyond)
		wantError(t, err, signal.KindConflict, signal.CodeRolledBack)
	}
	if err := b.store.StoreEnginePosition(t.Context(), 0, epoch, end); err != nil {
		t.Errorf("the end of the log: %v", err)
	}
	if got, err := b.store.EnginePosition(t.Context(), 0); got != end || err != nil {
		t.Errorf("stored %v, %v, want %v", got, err, end)
	}
	if err := b.store.StoreEnginePosition(t.Context(), 0, epoch, signal.Position{MS: end.MS - 1, Seq: end.Seq + 1}); err != nil {
		t.Errorf("before the end of the log, with a greater sequence: %v", err)
	}
	b.rdb.XTrimMaxLen(t.Context(), redisclient.EventsKey(0), 0)
	if err := b.store.StoreEnginePosition(t.Context(), 0, epoch, end); err != nil {
		t.Errorf("after trimming: %v", err)
	}
}
