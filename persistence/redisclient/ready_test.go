package redisclient

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// However many callers ask, Redis is probed twice a second.
func TestReadinessIsProbedTwiceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r sharedProbe
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
				go r.current(t.Context(), try)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := tries.Load(); n != 4 {
			t.Errorf("%d probes in two seconds, want 4", n)
		}
		time.Sleep(time.Second)
		failing.Store(true)
		p := r.current(t.Context(), try)
		if <-p.done; !errors.Is(p.err, refused) {
			t.Errorf("the probe returns %v", p.err)
		}
		if r.current(t.Context(), try) != p {
			t.Error("a new result is not reused")
		}
	})
}

// The owner of the probes ends one that is under way, and waits for it.
func TestNoProbeOutlivesItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r sharedProbe
		ended := false
		p := r.current(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			ended = true
			return ctx.Err()
		})
		if err := r.tasks.Close(t.Context()); err != nil || !ended || !errors.Is(p.err, context.Canceled) {
			t.Errorf("closed with %v; the probe has ended: %t, %v", err, ended, p.err)
		}
		time.Sleep(readyAge)
		if later := r.current(t.Context(), nil); !errors.Is(later.err, tasks.ErrClosed) {
			t.Errorf("a later probe ends with %v", later.err)
		}
	})
}

// Ready reports within two seconds that writes are refused or not answered, and that they are
// accepted again.
func TestReadinessFollowsWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(context.Context) error{
		"refused":      func(context.Context) error { return ErrReplicas },
		"not answered": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var r sharedProbe
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
	for given, want := range map[time.Duration]time.Duration{
		0:                     2 * time.Second,
		50 * time.Millisecond: 50 * time.Millisecond,
	} {
		c := openClient(t, Options{URL: redistest.New(t).URL(), Partitions: 1, Timeout: given})
		o := c.RDB.(*redis.Client).Options()
		if o.ReadTimeout != want || o.WriteTimeout != want || c.Replicas.timeout != want/2 {
			t.Errorf("with %s a read takes up to %s, a write %s, replicas %s",
				given, o.ReadTimeout, o.WriteTimeout, c.Replicas.timeout)
		}
	}
	// Redis takes the command and does not answer.
	server := redistest.New(t)
	c := openClient(t, Options{URL: server.URL(), Partitions: 1, Timeout: 50 * time.Millisecond})
	server.Pause()
	defer server.Continue()
	if err := c.Readiness.Check(t.Context()); err == nil {
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

// panickingPipelines is a hook that panics at the next pipeline if next is set.
type panickingPipelines struct{ next atomic.Bool }

func (h *panickingPipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *panickingPipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *panickingPipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if h.next.Swap(false) {
			panic("at a probe")
		}
		return next(ctx, commands)
	}
}

func TestPanickingProbeFails(t *testing.T) {
	t.Parallel()
	one, cluster := redistest.New(t).URL(), redistest.NewCluster(t, 3).URL()
	for name, address := range map[string]string{"one server": one, "a cluster": cluster} {
		s := openClient(t, Options{URL: address})
		faulty := &panickingPipelines{}
		faulty.next.Store(true)
		if cluster, ok := s.RDB.(*redis.ClusterClient); ok {
			master, err := cluster.MasterForKey(t.Context(), s.ProbeKey(0))
			if err != nil {
				t.Fatal(err)
			}
			master.AddHook(faulty)
		} else {
			s.RDB.AddHook(faulty)
		}
		if err := s.Readiness.Check(t.Context()); !errors.Is(err, panics.ErrPanicked) {
			t.Errorf("%s: the probe that panicked ends with %v", name, err)
		}
		redistest.Eventually(t, func() bool { return s.Readiness.Check(t.Context()) == nil })
	}
}

// With WaitReplicas a write counts once replicas have it: not without a replica, and not
// while the only one stalls.
func TestReadyWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master, replica := redistest.New(t), redistest.New(t)
	c := openClient(t, Options{URL: master.URL(), WaitReplicas: 1})
	wantReady(t, c, ReplicasMissing)
	replica.Follow(master)
	wantReady(t, c, "")
	replica.Pause()
	wantReady(t, c, ReplicasMissing)
	replica.Continue()
	wantReady(t, c, "")
}

// wantReady waits until c is ready, or until it is not for the given reason.
func wantReady(t *testing.T, c *Client, reason string) {
	t.Helper()
	redistest.Eventually(t, func() bool {
		err := c.Readiness.Check(t.Context())
		got, _ := Refusal(err)
		return (err == nil) == (reason == "") && got == reason
	})
}
