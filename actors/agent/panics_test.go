package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestAJobThatPanicsFailsAndTheNextIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{JobWorkers: 1})
		defer b.close()
		panicked := false
		b.log.refuse = func(signal.Change) error {
			if !panicked {
				panicked = true
				panic("at its end")
			}
			return nil
		}
		for range 2 {
			if _, err := b.agents.SubmitScan(t.Context(), request(""), []string{"BTC"}); err != nil {
				t.Fatal(err)
			}
		}
		stop := b.work()
		time.Sleep(time.Minute)
		stop()
		changes := b.log.all()
		if len(changes) != 2 || changes[0].Job == nil || changes[1].Job == nil {
			t.Fatalf("stored %+v, want the ends of two jobs", changes)
		}
		if j := changes[0].Job; j.Status != signal.JobFailed || j.Error == nil || j.Error.Code != signal.Internal {
			t.Errorf("the job that panicked ended as %s with %v", j.Status, j.Error)
		}
		if j := changes[1].Job; j.Status != signal.JobCompleted {
			t.Errorf("the next one ended as %s with %v", j.Status, j.Error)
		}
	})
}
