package tasks

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key struct{}

func TestATaskOutlivesItsCallerAndKeepsItsValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "request"))
		var over error
		if !g.Go(ctx, func(ctx context.Context) {
			if ctx.Value(key{}) != "request" {
				t.Error("the values of the caller's context are lost")
			}
			<-ctx.Done()
			over = ctx.Err()
		}) {
			t.Fatal("nothing was started")
		}
		cancel()
		synctest.Wait()
		if over != nil {
			t.Error("the task ended with its caller")
		}
		if err := g.Close(t.Context()); err != nil || !errors.Is(over, context.Canceled) {
			t.Errorf("Close returned %v, and the task ended by %v", err, over)
		}
	})
}

func TestNothingStartsAfterClose(t *testing.T) {
	t.Parallel()
	var g Group
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(context.Context, func(context.Context)) bool{"Go": g.Go, "Do": g.Do} {
		if start(t.Context(), func(context.Context) { t.Errorf("%s called its function", name) }) {
			t.Errorf("%s reported a start", name)
		}
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error("close twice:", err)
	}
}

func TestCloseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g Group
		release := make(chan struct{})
		g.Go(t.Context(), func(context.Context) { <-release })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(release)
	})
}

func TestTasksStartAndEndAtOnce(t *testing.T) {
	t.Parallel()
	var g Group
	var started, running atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for g.Go(t.Context(), func(context.Context) {
				started.Add(1)
				running.Add(1)
				defer running.Add(-1)
			}) {
			}
		})
	}
	for started.Load() < 100 {
		runtime.Gosched()
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := running.Load(); n != 0 {
		t.Errorf("%d tasks run after Close", n)
	}
	callers.Wait()
}
