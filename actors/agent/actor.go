package agent

import (
	"context"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// runRequested asks the actor to admit a run and to see to it that it is executed.
type runRequested struct{ run *run }

// workerFreed says that a worker has nothing to do any more.
type workerFreed struct{}

// agentActor admits the runs of one agent and keeps a bounded number of them at
// work. Those over it wait in their order.
type agentActor struct {
	exec    *executor
	quota   *quota // shared by all agents
	workers int    // runs at work at once
	queue   int    // runs that may wait for a worker

	working int
	waiting []*run
}

// Receive implements engine.Actor.
func (a *agentActor) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Stopping, engine.Restarting:
		a.onEnd()
	case runRequested:
		a.onRunRequested(c, m.run)
	case workerFreed:
		a.onWorkerFreed(c)
	}
}

// onEnd refuses what waits. What is at work goes on: it belongs to the executor.
func (a *agentActor) onEnd() {
	for _, r := range a.waiting {
		r.refuse(signal.Unavailable(errDrained))
	}
	a.waiting = nil
}

func (a *agentActor) onRunRequested(c engine.Context, r *run) {
	// Jobs are limited by the number that is queued, and by their workers.
	if r.job == nil && !a.quota.take(r.request.Account) {
		r.refuse(tooManyRuns("too many runs at once: wait until one has ended"))
		return
	}
	if r.job == nil {
		r.held.Store(true)
	}
	if a.working < a.workers {
		a.start(c, r)
		return
	}
	if len(a.waiting) >= a.queue {
		r.refuse(tooManyRuns("the agent is busy"))
		return
	}
	a.waiting = append(a.waiting, r)
}

func (a *agentActor) onWorkerFreed(c engine.Context) {
	a.working--
	if len(a.waiting) == 0 {
		return
	}
	r := a.waiting[0]
	a.waiting[0] = nil
	a.waiting = a.waiting[1:]
	a.start(c, r)
}

// start gives r to a worker. The worker does not heed the context of the actor: a
// restart of it must not end runs.
func (a *agentActor) start(c engine.Context, r *run) {
	a.working++
	c.Go(func(context.Context) any {
		a.exec.execute(r)
		return workerFreed{}
	})
}

// tooManyRuns returns the error of a run that was not admitted.
func tooManyRuns(message string) *signal.Error {
	return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: message, RetryAfter: time.Second}
}

// quota limits the synchronous runs of an account in this process. A run gives its
// place back before its caller is answered, so that who waits for each answer
// never meets the limit.
type quota struct {
	limit int

	mu   sync.Mutex
	runs map[signal.AccountID]int
}

func newQuota(limit int) *quota { return &quota{limit: limit, runs: make(map[signal.AccountID]int)} }

// take returns false if the account has as many runs as it may.
func (q *quota) take(account signal.AccountID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.runs[account]
	if n >= q.limit {
		return false
	}
	q.runs[account] = n + 1
	return true
}

func (q *quota) give(account signal.AccountID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.runs[account]; n > 1 {
		q.runs[account] = n - 1
	} else {
		delete(q.runs, account)
	}
}
