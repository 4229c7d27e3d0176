package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestPanickingJobFailsAlone(t *testing.T) {
	withBench(t, Options{JobWorkers: 1}, func(t *testing.T, b *bench) {
		panicked := false
		b.log.refuse = func(signal.Change) error {
			if !panicked {
				panicked = true
				panic("at its end")
			}
			return nil
		}
		for range 2 {
			b.submitScan()
		}
		b.workFor(time.Minute)
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

// panickingJobs panics at the first call of Next, and at all calls of Waiting and Done.
type panickingJobs struct {
	*fakeJobs
	asked int
}

func (j *panickingJobs) Next(ctx context.Context, limit int) ([]signal.Job, error) {
	if j.asked++; j.asked == 1 {
		panic("at a job")
	}
	return j.fakeJobs.Next(ctx, limit)
}

func (j *panickingJobs) Waiting(context.Context) (int64, error) { panic("at the count") }

func (j *panickingJobs) Done(job signal.Job) {
	j.fakeJobs.Done(job)
	panic("at the end of a job")
}

func TestJobsAreTakenAfterAPanic(t *testing.T) {
	withBench(t, Options{JobWorkers: 1, Metrics: NewMetrics(prometheus.NewRegistry())}, func(t *testing.T, b *bench) {
		b.agents.o.Jobs = &panickingJobs{fakeJobs: b.jobs}
		for range 2 {
			b.submitScan()
		}
		b.workFor(time.Minute)
		if n := len(b.log.all()); n != 2 {
			t.Errorf("%d jobs are done, want 2", n)
		}
	})
}

func TestAPanickingSubmissionFailsAlone(t *testing.T) {
	withBench(t, Options{}, func(t *testing.T, b *bench) {
		b.agents.exec.submitted.trading = nil // its first use panics
		own := &signal.Agent{ID: "mine", Category: signal.Trading, Strategies: []string{"cross"}, Account: "acc_1"}
		req := signal.RunRequest{Account: "acc_1", Agent: "mine", Own: own, Strategy: "cross", Asset: "BTC",
			Timeframe: signal.H1, Risk: signal.LowRisk, Submission: &signal.Submission{Direction: signal.Long}}
		_, err := b.agents.Accept(t.Context(), req)
		if e, ok := errors.AsType[*signal.RunError](err); !ok || e.Code != signal.Internal {
			t.Errorf("it ended with %v", err)
		}
		req.Submission = &signal.Submission{Direction: signal.Long, Text: "a text"}
		if o, err := b.agents.Accept(t.Context(), req); err != nil || o.Signal == nil || o.Signal.Agent != "mine" {
			t.Errorf("the next one ended with %+v, %v", o, err)
		}
	})
}
