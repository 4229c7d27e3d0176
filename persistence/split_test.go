package persistence

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// A master stops for so long that sentinels promote one of its two replicas, and goes on while the
// other one still follows it. That one confirms changes which only those two have, and which are lost
// once both follow the new master. So only the confirmation by all replicas keeps what is acknowledged.
func TestMasterThatComesBackDuringItsFailover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	const writers, replicas = 16, 2
	w := redistest.NewWatched(t, replicas)
	f := &failover{T: t, acknowledged: map[string]bool{}, seen: map[string]int{}}
	f.store = openStore(t, Options{URL: w.URL(), Partitions: writers, WaitReplicas: replicas})
	f.log = openLog(t, f.store, eventlog.LogOptions{})
	stop := f.follow()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var over atomic.Bool
	var load sync.WaitGroup
	for p := range writers {
		load.Go(func() { f.write(ctx, storetest.AccountIn(f.store.Client, p), 0, 1, over.Load) })
	}
	w.Master.Pause()
	for !slices.ContainsFunc(w.Replicas, (*redistest.Server).IsMaster) {
		if ctx.Err() != nil {
			t.Fatal("no replica is promoted")
		}
		time.Sleep(time.Millisecond)
	}
	w.Master.Continue()
	w.AwaitSettled()
	over.Store(true)
	load.Wait()
	if w.Master.IsMaster() {
		t.Error("no replica has taken the master's place")
	}
	f.check(stop)
}
