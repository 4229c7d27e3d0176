package persistence

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// panickingPipelines panics at the next pipeline, if it shall.
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

func TestAProbeThatPanicsIsOneThatFailed(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"one server": redistest.New(t).URL(), "a cluster": redistest.NewCluster(t, 3).URL()} {
		s := openStore(t, Options{URL: address})
		faulty := &panickingPipelines{}
		faulty.next.Store(true)
		if cluster, ok := s.RDB.(*redis.ClusterClient); ok {
			master, err := cluster.MasterForKey(t.Context(), redisclient.ProbeKey(0))
			if err != nil {
				t.Fatal(err)
			}
			master.AddHook(faulty)
		} else {
			s.RDB.AddHook(faulty)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, panics.ErrPanicked) {
			t.Errorf("%s: the probe that panicked ends with %v", name, err)
		}
		eventually(t, func() bool { return s.Ready(t.Context()) == nil })
	}
}

// panickingHandler panics at the first record with a message, and counts them.
type panickingHandler struct {
	slog.Handler
	message string
	seen    atomic.Int64
}

func (h *panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *panickingHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message && h.seen.Add(1) == 1 {
		panic("at a record")
	}
	return nil
}

func TestTheEmbeddedServerIsKeptAndSyncedAfterAPanic(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"redis ended and is started again", "the append-only file is not synced"} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			faulty, dir := &panickingHandler{Handler: slog.DiscardHandler, message: message}, t.TempDir()
			e, err := StartEmbedded(t.Context(), EmbeddedOptions{Dir: dir, Log: slog.New(faulty)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Stop(context.Background()) })
			c := connect(t, e)
			// A file that cannot be opened, and a server that ends twice.
			if err := os.Symlink("x.incr.aof", filepath.Join(dir, childFiles, "x.incr.aof")); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				pid := e.PID()
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, func() bool { return e.PID() != pid && c.Ping(t.Context()).Err() == nil })
			}
			eventually(t, func() bool { return faulty.seen.Load() >= 2 })
		})
	}
}
