package redisclient

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// However often and by how many it is asked for, Redis is asked twice a second.
func TestReadinessIsProbedTwiceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r readiness
		var tries atomic.Int32
		refused := errors.New("refused")
		var failing atomic.Bool
		try := func(context.Context) error {
			tries.Add(1)
			time.Sleep(100 * time.Millisecond)
			if failing.Load() {
				return refused
			}
			return nil
		}
		for range 40 { // two seconds
			for range 5 {
				go r.current(try)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := tries.Load(); n != 4 {
			t.Errorf("%d probes in two seconds, want 4", n)
		}
		time.Sleep(time.Second)
		failing.Store(true)
		p := r.current(try)
		if <-p.done; !errors.Is(p.err, refused) {
			t.Errorf("the probe says %v", p.err)
		}
		if r.current(try) != p {
			t.Error("a new answer is not used again")
		}
	})
}

// Whoever asks learns within two seconds that writes are refused, or that they are not
// answered, and as soon that they are taken again.
func TestReadinessFollowsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(context.Context) error{
		"refused":      func(context.Context) error { return ErrReplicas },
		"not answered": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var r readiness
			var breaks atomic.Bool
			try := func(ctx context.Context) error {
				time.Sleep(readyWait)
				if breaks.Load() {
					return broken(ctx)
				}
				return nil
			}
			for _, fails := range []bool{false, true, false, true} {
				breaks.Store(fails)
				began := time.Now()
				for (r.ask(t.Context(), try) != nil) != fails {
					time.Sleep(50 * time.Millisecond)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("%s: that it fails is %t after %s", name, fails, took)
				}
			}
			time.Sleep(readyTimeout) // a probe may be under way
		})
	}
}

func TestOptionsTimeoutBoundsCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ given, want time.Duration }{{0, 2 * time.Second}, {50 * time.Millisecond, 50 * time.Millisecond}} {
		server := redistest.New(t)
		c := openClient(t, Options{URL: server.URL(), Partitions: 1, Timeout: test.given})
		if o := c.RDB.(*redis.Client).Options(); o.ReadTimeout != test.want || o.WriteTimeout != test.want || c.replicasIn != test.want/2 {
			t.Errorf("with %s a read takes up to %s, a write %s, replicas %s", test.given, o.ReadTimeout, o.WriteTimeout, c.replicasIn)
		}
	}
	// Redis takes the command and does not answer.
	server := redistest.New(t)
	c := openClient(t, Options{URL: server.URL(), Partitions: 1, Timeout: 50 * time.Millisecond})
	server.Pause()
	defer server.Continue()
	if err := c.Ready(t.Context()); err == nil {
		t.Error("a Redis that does not answer is ready")
	}
}

// openClient returns a client that is closed at the end of the test.
func openClient(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
