package service

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A panic of a background task shuts the process down, with the name of the task.
func TestAStartThatPanicsEndsTheProcessInOrder(t *testing.T) {
	t.Parallel()
	undone := false
	s := begin(t, testConfig(t, redistest.New(t).URL()), func(p *process) {
		p.undo.Add("the test", func(context.Context) error {
			undone = true
			return nil
		})
		p.agents = nil // work on jobs panics
	})
	<-s.ended
	if !errors.Is(s.err, panics.ErrPanicked) || !strings.HasPrefix(s.err.Error(), "work on jobs: ") || !undone {
		t.Errorf("it ended with %v, in order: %t", s.err, undone)
	}
	if s.log.Line("panic recovered", `"task":"work on jobs"`) == "" {
		t.Errorf("the panic is not logged:\n%s", s.log.Newest())
	}
	s.log.Forget("panic recovered")
}

func TestSettingsAreReloadedAfterAPanic(t *testing.T) {
	t.Parallel()
	reload := make(chan os.Signal)
	s := start(t, testConfig(t, redistest.New(t).URL()),
		func(p *process) { p.options.Reload = reload }) // there is no file: it panics
	for range 2 {
		reload <- syscall.SIGHUP
	}
	eventually(t, "both panics are logged", func() bool {
		return strings.Count(s.log.String(), "settings were not reloaded") == 2
	})
	if text := string(s.client(t).get("/metrics").Body); !strings.Contains(text,
		`agentsignal_panics_total{where="background"} 2`+"\n") {
		t.Errorf("two panics are not counted")
	}
	s.log.Forget(`"level":"ERROR"`)
}
