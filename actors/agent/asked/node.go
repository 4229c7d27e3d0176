package asked

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// forAgent is a message for the actor of an agent.
type forAgent struct {
	agent   agentKey
	message any // wanted, ended or healthWanted
}

// sweepDue makes the node end the actors of agents that are not asked any more.
type sweepDue struct{}

// idleAfter is how long an agent is not asked until its actor ends; up to twice as long. It is longer than the pause and
// any run, and than the longest bar within a day, so that an agent that is run at each of them keeps its failures.
const idleAfter = 2 * time.Hour

// agentFailures restarts the actor of an agent that panicked. One that panics more often stops; the next question
// starts another.
var agentFailures = engine.Supervision{Restarts: 5, Within: time.Minute}

// agentKey names an agent of an account.
type agentKey struct {
	account signal.AccountID
	id      signal.AgentID
}

func keyOf(a *signal.Agent) agentKey { return agentKey{a.Account, a.ID} }

// node is the parent of the agents that were asked lately.
type node struct {
	o      *Options
	agents map[agentKey]*child
	keys   map[engine.Ref]agentKey
}

// child is the actor of an agent.
type child struct {
	ref  engine.Ref
	used bool // since the last sweep
}

func newNode(o *Options) *node {
	return &node{o: o, agents: map[agentKey]*child{}, keys: map[engine.Ref]agentKey{}}
}

// Receive implements engine.Actor.
func (n *node) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		c.After(idleAfter, sweepDue{})
	case forAgent:
		n.onMessage(c, m)
	case sweepDue:
		n.sweep(c)
	case engine.Terminated:
		n.forget(m.Ref)
	}
}

// onMessage passes m to its agent. Only a question starts an actor.
func (n *node) onMessage(c engine.Context, m forAgent) {
	a := n.agents[m.agent]
	if a == nil {
		switch w := m.message.(type) {
		case wanted:
			name := string(m.agent.account) + "/" + string(m.agent.id)
			a = &child{ref: c.Spawn(engine.Agent, name, func() engine.Actor { return newAgent(n.o) }, engine.Supervision{})}
			n.agents[m.agent], n.keys[a.ref] = a, m.agent
		case healthWanted:
			w.answer <- Health{}
			return
		default:
			return
		}
	}
	a.used = true
	a.ref.Tell(m.message)
}

// sweep ends the actors that were not used since the last sweep.
func (n *node) sweep(c engine.Context) {
	for _, a := range n.agents {
		if !a.used {
			n.forget(a.ref)
			c.Poison(a.ref)
		}
		a.used = false
	}
	c.After(idleAfter, sweepDue{})
}

func (n *node) forget(ref engine.Ref) {
	if key, ok := n.keys[ref]; ok {
		delete(n.keys, ref)
		delete(n.agents, key)
	}
}
