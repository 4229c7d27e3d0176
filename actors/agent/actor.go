package agent

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// runRequested asks the actor to have a run executed.
type runRequested struct{ run *run }

// workerFreed reports that a worker has ended its run.
type workerFreed struct{}

// agentActor keeps a bounded number of an agent's runs at work. Others wait in their
// order, and beyond a number of those runs are refused.
type agentActor struct {
	exec    *executor
	workers int // runs at work at once
	queue   int // runs that may wait for a worker

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
		r.settle(nil, signal.Unavailable(errDrained))
	}
	a.waiting = nil
}

func (a *agentActor) onRunRequested(c engine.Context, r *run) {
	if a.working < a.workers {
		a.start(c, r)
		return
	}
	if len(a.waiting) >= a.queue {
		r.settle(nil, tooManyRuns("the agent is busy"))
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
