package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// newTestProcess builds a process that is not started, with a log to read.
func newTestProcess(t *testing.T, o Options) (*process, *commandtest.Journal) {
	t.Helper()
	c := configs.Default()
	c.HTTP.Addr, c.DataDir, c.Redis.URL = "127.0.0.1:0", t.TempDir(), configs.Secret(redistest.New(t).URL())
	c.Market.Source = "stream"
	var log commandtest.Journal
	o.Log, o.Shutdown = slog.New(slog.NewJSONHandler(&log, nil)), commandtest.WaitLimit
	p, err := newProcess(t.Context(), c, o)
	commandtest.Must(t, err)
	return p, &log
}

// A panic of a background task shuts the process down, with the name of the task.
func TestAStartThatPanicsEndsTheProcessInOrder(t *testing.T) {
	t.Parallel()
	p, log := newTestProcess(t, Options{})
	undone := false
	p.stops.Add("the test", func(context.Context) error {
		undone = true
		return nil
	})
	p.agents = nil // work on jobs panics
	err := p.run(t.Context())
	if !errors.Is(err, panics.ErrPanicked) || !strings.HasPrefix(err.Error(), "work on jobs: ") || !undone {
		t.Errorf("it ended with %v, in order: %t", err, undone)
	}
	if log.Line("panic recovered", `"task":"work on jobs"`) == "" {
		t.Errorf("the panic is not logged:\n%s", log.Newest())
	}
}

func TestSettingsAreReloadedAfterAPanic(t *testing.T) {
	t.Parallel()
	reload := make(chan os.Signal)
	p, log := newTestProcess(t, Options{Reload: reload}) // there is no file: it panics
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.run(ctx) }()
	for range 2 {
		reload <- syscall.SIGHUP
	}
	commandtest.Eventually(t, "both panics are logged", func() bool {
		return strings.Count(log.String(), "settings were not reloaded") == 2
	})
	families, err := p.registry.Gather()
	commandtest.Must(t, err)
	counted := 0.
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "agentsignal_panics_total" && m.GetLabel()[0].GetValue() == "background" {
				counted += m.GetCounter().GetValue()
			}
		}
	}
	if counted != 2 {
		t.Errorf("%v panics are counted, want 2", counted)
	}
	stop()
	commandtest.Must(t, <-ended)
}
