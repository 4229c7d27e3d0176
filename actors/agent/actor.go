package agent

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// runRequested asks the actor to have a run executed.
type runRequested struct{ run *run }

// workerFreed reports that a worker is free again.
type workerFreed struct{}

// agentActor executes a bounded number of an agent's runs at once. Further ones wait in
// their order, and when too many wait, runs are refused.
type agentActor struct {
	exec    *executor
	workers int // maximum of working
	queue   int // maximum length of waiting

	working int // runs that are executed
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

// onEnd refuses the waiting runs. Those under way continue: they belong to the executor.
func (a *agentActor) onEnd() {
	for _, r := range a.waiting {
		r.settle(nil, signal.Stopping(errDrained))
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

// start gives r to a worker, which ignores the actor's context: a restart of the actor
// must not end runs.
func (a *agentActor) start(c engine.Context, r *run) {
	a.working++
	c.Go(func(context.Context) any {
		a.exec.execute(r)
		return workerFreed{}
	})
}
