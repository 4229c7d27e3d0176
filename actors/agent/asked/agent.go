package asked

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages to the actor of an agent.
type (
	// wanted asks for the permission to send a question, which is answered by a grant.
	wanted struct{ *ticket }
	// ended is sent when a question was answered or given up, granted or not.
	ended struct {
		*ticket
		asked bool             // it was sent, and its end is the agent's doing
		took  time.Duration    // until the answer
		err   *signal.RunError // nil: the agent has answered
	}
	healthWanted struct{ answer chan<- Health }
)

// ticket is a question, from before it is sent until it has ended.
type ticket struct {
	url    string
	answer chan<- grant // of length 1
}

// grant is the answer to wanted.
type grant struct {
	slow    bool          // the agent is expected to answer slowly
	refusal *signal.Error // nil: the question may be sent
}

// Limits of each agent. The waiting are few, so that an account that may have 20 runs at once cannot lose all of them to one
// agent that hangs.
const (
	maxInFlight = 8
	maxWaiting  = 8
	maxFailures = 5                // in a row, until an agent is paused
	pauseFor    = 30 * time.Second // after that, or after a failed trial
	trialRetry  = 5 * time.Second  // Retry-After while the trial is under way
	slowAbove   = time.Second      // an agent is slow if its last answer took longer
)

// errStopped is the cause of the refusals of an actor that ends.
var errStopped = errors.New("the agent's actor has ended")

// agent grants the questions to one agent. After maxFailures failures in a row it refuses all for pauseFor, and then
// lets one at a time through, until one succeeds.
type agent struct {
	o        *Options
	url      string
	inFlight map[*ticket]struct{}
	waiting  []*ticket
	slow     bool

	failures int
	until    time.Time // of the pause; zero unless the agent is paused
	last     *signal.RunError
	lastAt   time.Time
}

func newAgent(o *Options) *agent { return &agent{o: o, inFlight: map[*ticket]struct{}{}} }

// Receive implements engine.Actor.
func (a *agent) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Stopping, engine.Restarting:
		// Questions in flight go on: they belong to their callers.
		a.resume()
		a.refuseWaiting(signal.Stopping(errStopped))
	case wanted:
		a.onWanted(m.ticket)
	case ended:
		a.onEnded(m)
	case healthWanted:
		m.answer <- Health{InFlight: len(a.inFlight), Waiting: len(a.waiting), Failures: a.failures, PausedUntil: a.until,
			LastError: a.last, LastErrorAt: a.lastAt}
	}
}

func (a *agent) onWanted(t *ticket) {
	if t.url != a.url { // what is known is of another endpoint
		a.url = t.url
		a.resume()
	}
	switch pause := a.until.Sub(a.o.Now()); {
	case a.paused() && (pause > 0 || len(a.inFlight) > 0):
		t.answer <- grant{refusal: a.pausedFor(pause)}
	case len(a.inFlight) < maxInFlight:
		a.grant(t)
	case len(a.waiting) < maxWaiting:
		a.waiting = append(a.waiting, t)
	default:
		t.answer <- grant{refusal: &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs",
			Message: "the agent is busy", RetryAfter: time.Second}}
	}
}

func (a *agent) grant(t *ticket) {
	a.inFlight[t] = struct{}{}
	t.answer <- grant{slow: a.slow}
}

func (a *agent) onEnded(m ended) {
	if i := slices.Index(a.waiting, m.ticket); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
	if _, ok := a.inFlight[m.ticket]; !ok {
		return // it was refused, or granted by an earlier incarnation
	}
	delete(a.inFlight, m.ticket)
	if m.asked && m.url == a.url {
		a.note(m)
	}
	for len(a.waiting) > 0 && len(a.inFlight) < maxInFlight {
		a.grant(a.waiting[0])
		a.waiting = slices.Delete(a.waiting, 0, 1)
	}
}

// note counts the end of a question that was sent.
func (a *agent) note(m ended) {
	if m.err == nil {
		a.slow = m.took > slowAbove
		a.resume()
		return
	}
	a.slow = m.took > slowAbove || m.err.Code == signal.AgentTimeout
	a.last, a.lastAt = m.err, a.o.Now()
	a.failures++
	if a.failures < maxFailures || a.until.After(a.lastAt) {
		return
	}
	if !a.paused() {
		a.o.Metrics.pause(1)
	}
	a.until = a.lastAt.Add(pauseFor)
	a.refuseWaiting(a.pausedFor(pauseFor))
}

func (a *agent) paused() bool { return !a.until.IsZero() }

// resume ends the pause and forgets the failures.
func (a *agent) resume() {
	if a.paused() {
		a.o.Metrics.pause(-1)
	}
	a.failures, a.until = 0, time.Time{}
}

func (a *agent) refuseWaiting(e *signal.Error) {
	for _, t := range a.waiting {
		t.answer <- grant{refusal: e}
	}
	a.waiting = nil
}

// pausedFor returns the error of a question during a pause that lasts for d, or during the trial after it.
func (a *agent) pausedFor(d time.Duration) *signal.Error {
	if d <= 0 {
		d = trialRetry
	}
	// Its cause is not that error, with which it would be taken for a run that has failed.
	return &signal.Error{Kind: signal.KindUnavailable, Code: signal.CodeAgentPaused, RetryAfter: d,
		Message: fmt.Sprintf("the agent is paused after %d failures in a row, the last: %s", a.failures, a.last.Message)}
}
