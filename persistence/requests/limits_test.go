package requests

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestTakeTokens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// An hour: next to nothing fills up while the test runs.
	take := func(want, back int) (int, time.Duration) {
		t.Helper()
		n, full, err := b.store.TakeTokens(t.Context(), "runs", "acc_1", 600, time.Hour, want, back)
		if err != nil {
			t.Fatal(err)
		}
		return n, full
	}
	each := time.Hour / 600
	for _, step := range []struct{ want, back, taken, used int }{
		{1, 0, 1, 1}, {30, 0, 30, 31}, {0, 10, 0, 21}, {500, 0, 500, 521}, {100, 0, 79, 600},
		{5, 0, 0, 600}, {2, 1, 1, 600}, {0, 700, 0, 0}, {600, 0, 600, 600},
	} {
		taken, full := take(step.want, step.back)
		used := time.Duration(step.used) * each
		if taken != step.taken || full > used || full < used-each/2 {
			t.Errorf("take %d, give back %d: %d taken, full in %v; want %d, %v",
				step.want, step.back, taken, full, step.taken, used)
		}
	}
	ttl := b.rdb.PTTL(t.Context(), b.store.LimitKey("runs", "acc_1")).Val()
	if ttl > time.Hour || ttl < time.Hour-time.Minute {
		t.Errorf("an empty bucket is kept for %v", ttl)
	}
	if n, _, err := b.store.TakeTokens(t.Context(), "runs", "acc_2", 600, time.Hour, 1, 0); err != nil || n != 1 {
		t.Errorf("another bucket: %d, %v", n, err)
	}
	// The quota is changed: an empty bucket of an hour is an empty one of a second.
	_, full, err := b.store.TakeTokens(t.Context(), "runs", "acc_1", 10, time.Second, 0, 0)
	if err != nil || full > time.Second {
		t.Errorf("after a change of quota: full in %v, %v", full, err)
	}
}

func TestBucketHoldsQuota(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, quota := range []int{1, 7, 20, 999, 1_000_000} {
		var taken atomic.Int64
		var wg sync.WaitGroup
		want := max(1, quota/20)
		for range 30 {
			wg.Go(func() {
				n, _, err := b.store.TakeTokens(t.Context(), "reads", strconv.Itoa(quota), quota, time.Hour, want, 0)
				if err != nil {
					t.Error(err)
				}
				taken.Add(int64(n))
			})
		}
		wg.Wait()
		// The test may take some tenths of a second, in which the bucket fills.
		if n := int(taken.Load()); n < quota || n > quota+1+quota/1000 {
			t.Errorf("quota %d gives %d", quota, n)
		}
	}
}

func TestBucketFillsUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, _, err := b.store.TakeTokens(t.Context(), "reads", "acc_1", 1000, time.Second, 1000, 0); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, func() bool {
		n, _, err := b.store.TakeTokens(t.Context(), "reads", "acc_1", 1000, time.Second, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	redistest.Eventually(t, func() bool { // a full bucket is not kept
		return b.rdb.Exists(t.Context(), b.store.LimitKey("reads", "acc_1")).Val() == 0
	})
}

func TestTakeTokensFromAStoppedRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.server.Kill()
	_, _, err := b.store.TakeTokens(t.Context(), "reads", "acc_1", 10, time.Second, 1, 0)
	storetest.WantKind(t, "take", err, signal.KindUnavailable)
}
