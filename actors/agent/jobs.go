package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Jobs stores jobs and hands out the queued ones. See persistence/jobs.
type Jobs interface {
	// Enqueue stores the queued job j, with reply unless that is nil. The error is
	// KindTooMany if the account has maxQueued queued jobs.
	Enqueue(ctx context.Context, j signal.Job, maxQueued int, reply *signal.Reply) error
	// Job returns a job, or KindNotFound.
	Job(ctx context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error)
	// Jobs lists the jobs of an account, newest first, and returns their total.
	Jobs(ctx context.Context, account signal.AccountID, status signal.JobStatus, limit, offset int) (
		[]signal.Job, int, error)
	// Next takes up to limit jobs and marks them as running, with their Attempt counted
	// and their Entry set. It waits about a second at most for the first one. Only one
	// goroutine at a time may call it.
	Next(ctx context.Context, limit int) ([]signal.Job, error)
	// Done records that this process no longer works on a job of Next. A job without an
	// outcome is taken again.
	Done(j signal.Job)
	// Waiting returns the number of queued jobs of the installation.
	Waiting(ctx context.Context) (int64, error)
}

// Pauses of the job worker.
const (
	retryNext    = time.Second      // after an error of Next
	countWaiting = 15 * time.Second // between two counts of queued jobs
)

// maxAskedJobs is how many jobs of accounts' agents are executed at once beside those of the workers, which wait for no
// endpoint. An account brings at most as many as its quota of runs lasts for the time limit of a run.
const maxAskedJobs = 4096

// errNoJobs is the cause of refusals without a store for jobs.
var errNoJobs = errors.New("no store for jobs")

// errNoAlerts leaves alerts to other processes, where this one has nothing that carries them out.
var errNoAlerts = errors.New("this process carries out no alerts")

// worker takes jobs from the queue and executes them.
type worker struct {
	agents   *Agents
	jobs     Jobs // nil without any
	analyses *analyst
	metrics  *Metrics
	log      *slog.Logger
}

// run takes jobs until ctx ends.
func (w *worker) run(ctx context.Context) error {
	if w.jobs == nil {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { w.countWaiting(ctx) })
	defer counting.Wait()
	defer cancel() // it also returns when the agents are drained
	free := make(chan struct{}, w.agents.o.JobWorkers)
	for range w.agents.o.JobWorkers {
		free <- struct{}{}
	}
	asked := make(chan struct{}, maxAskedJobs)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-free:
		}
		workers := 1 + drain(free)
		var jobs []signal.Job
		err := panics.ErrPanicked
		panics.Guard(w.log, panics.Jobs, func() { jobs, err = w.jobs.Next(ctx, workers) })
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn("jobs cannot be taken", "err", err)
		}
		failing = err != nil
		for _, j := range jobs {
			if !w.agents.begin() {
				return nil // another process will take them
			}
			done := func() { free <- struct{}{} }
			if !j.Request.Agent.BuiltIn() && tryTake(asked) {
				done = func() { <-asked }
			} else {
				workers--
			}
			go func() {
				panics.Guard(w.log, panics.Jobs, func() { w.work(j) }, "job", string(j.ID))
				done()
			}()
		}
		for range workers {
			free <- struct{}{}
		}
		if err != nil {
			backoff.Sleep(ctx, retryNext)
		}
	}
}

// tryTake takes one of the places of a channel, if there is one.
func tryTake(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// drain receives without waiting, and returns how many tokens there were.
func drain(tokens <-chan struct{}) (n int) {
	for {
		select {
		case <-tokens:
			n++
		default:
			return n
		}
	}
}

// work executes a job that this process has taken. It returns when the outcome is stored
// or left to another process.
func (w *worker) work(j signal.Job) {
	defer w.jobs.Done(j)
	if j.Kind == signal.JobAlert {
		defer w.agents.running.Done()
		if err := w.agents.alerts(w.agents.exec.ctx, j); err != nil {
			w.log.Info("an alert is left to another worker", "job", string(j.ID), "attempt", j.Attempt, "err", err)
		}
		return
	}
	j.Request.Reply = nil // the client got its answer when the job was queued
	r := w.agents.newRun(j.Run, j.Request, &j, w.agents.running.Done)
	defer r.release()
	err := panics.ErrPanicked
	if !panics.Guard(w.log, panics.Jobs, func() { err = w.runJob(r) }, "job", string(j.ID)) {
		err = w.abandon(r)
	}
	switch {
	case err == nil || signal.KindOf(err) == signal.KindRunFailed || signal.CodeOf(err) == CodeNoSignal:
	case signal.KindOf(err) == signal.KindConflict:
		w.log.Info("a job was taken by another process", "job", string(j.ID), "attempt", j.Attempt)
	default:
		w.log.Warn("the outcome of a job was not stored; it will be run again",
			"job", string(j.ID), "attempt", j.Attempt, "err", err)
	}
}

// runJob executes a job and stores its outcome.
func (w *worker) runJob(r *run) error {
	j := r.job
	if j.Attempt == 1 {
		w.metrics.jobStarted(j.StartedAt.Sub(j.CreatedAt))
	}
	failure, err := w.check(r)
	switch {
	case err != nil:
		return err
	case j.Kind != signal.JobRun:
		return w.analyses.analyze(r, failure)
	case failure != nil:
		return w.fail(r, failure)
	}
	_, err = w.agents.await(context.Background(), r)
	return err
}

// check reads the agent of a job as it is now. failure is why the job cannot be executed; err that it must be tried again.
func (w *worker) check(r *run) (failure *signal.RunError, err error) {
	if r.job.Attempt > maxAttempts {
		return cancelledError("the job was interrupted too often"), nil
	}
	ctx, cancel := context.WithTimeout(w.agents.exec.ctx, w.agents.o.Timeout)
	defer cancel()
	err = w.agents.readOwn(ctx, &r.request)
	kind := signal.KindOf(err)
	switch {
	case err != nil && kind != signal.KindNotFound && kind != signal.KindConflict:
		return nil, err
	case err != nil:
		return goneError(err), nil
	case w.agents.checkStrategy(r.request) != nil:
		return cancelledError("the agent was switched off"), nil
	}
	return nil, nil
}

// abandon ends a job that panicked.
func (w *worker) abandon(r *run) error {
	if r.job.Kind == signal.JobRun {
		w.agents.exec.fail(r, internalError(nil))
		return nil
	}
	return w.analyses.store(r, nil, internalError(panics.ErrPanicked))
}

// fail records the end of a run that is not executed.
func (w *worker) fail(r *run, failure *signal.RunError) error {
	w.agents.exec.fail(r, failure)
	return (<-r.answer).err
}

// countWaiting updates the gauge of queued jobs until ctx ends.
func (w *worker) countWaiting(ctx context.Context) {
	if w.metrics == nil {
		return
	}
	tick := time.NewTicker(countWaiting)
	defer tick.Stop()
	for {
		panics.Guard(w.log, panics.Jobs, func() {
			n, err := w.jobs.Waiting(ctx)
			w.metrics.jobsWaiting(n, err)
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
