package datadir

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

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

func TestEmbeddedServerSurvivesPanic(t *testing.T) {
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
				redistest.Eventually(t, func() bool { return e.PID() != pid && c.Ping(t.Context()).Err() == nil })
			}
			redistest.Eventually(t, func() bool { return faulty.seen.Load() >= 2 })
		})
	}
}
