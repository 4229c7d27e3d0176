package agent

import (
	"context"
	"errors"
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

// errNoJobs is the cause of refusals without a store for jobs.
var errNoJobs = errors.New("no store for jobs")

// Submit queues a run, as Run takes it, and returns its job. reply, unless nil, makes the answer that is
// stored with the job for the request's Idempotency-Key. Errors are *signal.Error:
// KindNotFound, KindTooMany, KindUnavailable.
func (a *Agents) Submit(ctx context.Context, req signal.RunRequest,
	reply func(signal.Job) *signal.Reply) (signal.Job, error) {
	return a.submit(ctx, signal.Job{Request: req}, reply)
}

// submit is Submit for jobs of all kinds.
func (a *Agents) submit(ctx context.Context, j signal.Job, reply func(signal.Job) *signal.Reply) (signal.Job, error) {
	if err := a.checkStrategy(j.Request); err != nil {
		return signal.Job{}, err
	}
	if j.Kind == signal.JobRun { // the others make no signals
		if err := a.checkOpen(j.Request.Account); err != nil {
			return signal.Job{}, err
		}
	}
	if a.o.Jobs == nil || j.Kind == signal.JobBacktest && a.o.History == nil {
		return signal.Job{}, signal.Unavailable(errNoJobs)
	}
	if !a.begin() {
		return signal.Job{}, signal.Stopping(errDrained)
	}
	defer a.running.Done()
	j.ID, j.Run, j.Status = signal.NewJobID(), signal.NewRunID(), signal.JobQueued
	j.CreatedAt = a.o.Now().UTC().Truncate(time.Millisecond)
	var kept *signal.Reply
	if reply != nil {
		kept = reply(j)
	}
	if err := a.o.Jobs.Enqueue(ctx, j, a.o.MaxQueued, kept); err != nil {
		return signal.Job{}, err
	}
	return j, nil
}

// Job returns a job of the account, or KindNotFound.
func (a *Agents) Job(ctx context.Context, account signal.AccountID, id signal.JobID) (signal.Job, error) {
	if a.o.Jobs == nil {
		return signal.Job{}, signal.NotFound("job")
	}
	return a.o.Jobs.Job(ctx, account, id)
}

// Jobs lists the jobs of the account, newest first, and returns their total; status ""
// means any.
func (a *Agents) Jobs(ctx context.Context, account signal.AccountID, status signal.JobStatus, limit, offset int) (
	[]signal.Job, int, error) {
	if a.o.Jobs == nil {
		return nil, 0, nil
	}
	return a.o.Jobs.Jobs(ctx, account, status, limit, offset)
}

// Work takes jobs and executes them until ctx ends. It then returns nil without waiting
// for jobs under way, which Drain does. It continues after errors of the store.
func (a *Agents) Work(ctx context.Context) error {
	if a.o.Jobs == nil {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { a.countWaiting(ctx) })
	defer counting.Wait()
	defer cancel() // Work also returns when the agents are drained
	free := make(chan struct{}, a.o.JobWorkers)
	for range a.o.JobWorkers {
		free <- struct{}{}
	}
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
		panics.Guard(a.o.Slog, panics.Jobs, func() { jobs, err = a.o.Jobs.Next(ctx, workers) })
		if err != nil && !failing && ctx.Err() == nil {
			a.o.Slog.Warn("jobs cannot be taken", "err", err)
		}
		failing = err != nil
		for _, j := range jobs {
			if !a.begin() {
				return nil // another process will take them
			}
			workers--
			go func() {
				panics.Guard(a.o.Slog, panics.Jobs, func() { a.work(j) }, "job", string(j.ID))
				free <- struct{}{}
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
func (a *Agents) work(j signal.Job) {
	defer a.o.Jobs.Done(j)
	j.Request.Reply = nil // the client got its answer when the job was queued
	r := a.newRun(j.Run, j.Request, &j, a.running.Done)
	defer r.release()
	err := panics.ErrPanicked
	if !panics.Guard(a.o.Slog, panics.Jobs, func() { err = a.runJob(r) }, "job", string(j.ID)) {
		err = a.abandon(r)
	}
	switch {
	case err == nil || signal.KindOf(err) == signal.KindRunFailed:
	case signal.KindOf(err) == signal.KindConflict:
		a.o.Slog.Info("a job was taken by another process", "job", string(j.ID), "attempt", j.Attempt)
	default:
		a.o.Slog.Warn("the outcome of a job was not stored; it will be run again",
			"job", string(j.ID), "attempt", j.Attempt, "err", err)
	}
}

// runJob executes a job and stores its outcome.
func (a *Agents) runJob(r *run) error {
	j := r.job
	if j.Attempt == 1 {
		a.o.Metrics.jobStarted(j.StartedAt.Sub(j.CreatedAt))
	}
	switch {
	case j.Kind != signal.JobRun:
		return a.analyze(r)
	case a.checkStrategy(j.Request) != nil:
		return a.fail(r, cancelledError("the agent was switched off"))
	case j.Attempt > maxAttempts:
		return a.fail(r, cancelledError("the job was interrupted too often"))
	}
	_, err := a.await(context.Background(), r)
	return err
}

// abandon ends a job that panicked.
func (a *Agents) abandon(r *run) error {
	if r.job.Kind == signal.JobRun {
		a.exec.fail(r, internalError(nil))
		return nil
	}
	return a.store(r, nil, internalError(panics.ErrPanicked))
}

// fail records the end of a run that is not executed.
func (a *Agents) fail(r *run, failure *signal.RunError) error {
	a.exec.fail(r, failure)
	return (<-r.answer).err
}

// countWaiting updates the gauge of queued jobs until ctx ends.
func (a *Agents) countWaiting(ctx context.Context) {
	if a.o.Metrics == nil {
		return
	}
	tick := time.NewTicker(countWaiting)
	defer tick.Stop()
	for {
		panics.Guard(a.o.Slog, panics.Jobs, func() {
			n, err := a.o.Jobs.Waiting(ctx)
			a.o.Metrics.jobsWaiting(n, err)
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
