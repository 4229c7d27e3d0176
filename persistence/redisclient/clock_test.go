package redisclient

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// lateAnswer keeps the first answer about the time for a while.
type lateAnswer struct {
	redis.Hook
	asked atomic.Int32
	late  time.Duration
}

func (h *lateAnswer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *lateAnswer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *lateAnswer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		err := next(ctx, c)
		if c.Name() == "time" && h.asked.Add(1) == 1 {
			time.Sleep(h.late)
		}
		return err
	}
}

func TestSyncClockTakesQuickestAnswer(t *testing.T) {
	t.Parallel()
	c := openClient(t, Options{URL: redistest.New(t).URL()})
	late := &lateAnswer{late: 400 * time.Millisecond}
	c.RDB.AddHook(late)
	if err := c.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := late.asked.Load(); n < 2 {
		t.Errorf("the time was asked for %d times", n)
	}
	// The server's clock is this one: by the late answer alone it would be 200 ms off.
	if off := time.Until(c.Now()).Abs(); off > 150*time.Millisecond {
		t.Errorf("the clock is off by %s", off)
	}
}

// set returns t as it would have been read if the local clock had later been set forward by so many seconds:
// its monotonic part is the same.
func set(t time.Time, seconds int64) time.Time {
	const nanoseconds = 30 // bits of the seconds' fraction below the seconds, see the type
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall -= uint64(seconds << nanoseconds)
	return t
}

// TestNowIgnoresTheLocalClock: it is set five minutes forward or back while the process runs. By such a clock
// signals would expire, or schedules run, too early.
func TestNowIgnoresTheLocalClock(t *testing.T) {
	t.Parallel()
	c := openClient(t, Options{URL: redistest.New(t).URL()})
	if err := c.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []int64{300, -300} {
		k := *c.Clock.last.Load()
		c.Clock.last.Store(&reading{k.redis, set(k.local, seconds)})
		if off := time.Until(c.Now()).Abs(); off > time.Minute { // a busy machine is no fault
			t.Errorf("the local clock is set by %d s, and the time is off by %s", seconds, off)
		}
		c.Clock.last.Store(&k)
	}
}
