// Package asked asks the agents of accounts for submissions, at the endpoints that they have registered.
//
// Each agent that was asked lately has an actor on this node, which decides when a question may be sent: so many at
// once, further ones in their order, none while the agent is paused because it has failed too often. The caller of Ask
// sends the question itself, so that no actor waits, and an agent that hangs delays only its own callers. What
// the actors know is lost with the process, and nothing of it is shared with other nodes.
//
// Questions are signed and limited as deliveries to webhooks are, by the same sender and guard. They are not retried.
package asked

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// EventAsk is the type of a question, in its header X-Service-Event. It is in no log.
const EventAsk signal.EventType = "agent.ask"

// maxReply is the maximum size of a reply, in bytes.
const maxReply = 64 << 10

// replyMargin is how long before the deadline of its context Ask gives up, so that the caller can still report why.
const replyMargin = 100 * time.Millisecond

// Sender sends questions within the limits of requests in flight. See webhook.Node.
type Sender interface {
	// Post makes one request of an account. It returns an error if ctx ended before the request could be sent. Nothing of r is
	// used after the return.
	Post(ctx context.Context, account signal.AccountID, slow bool, r sender.Request) (sender.Result, error)
}

// Options configures an Asked.
type Options struct {
	Sender Sender // required
	// Read reads the submission in a reply to req; required. body is a valid JSON object. Its error is shown to the
	// account.
	Read func(body []byte, req *signal.RunRequest) (*signal.Submission, error)

	Timeout time.Duration    // of a question whose context has no deadline; default 30 s
	Now     func() time.Time // the service's clock; default time.Now
	Metrics *Metrics         // or nil
}

// Asked asks agents. Its methods may be called from anywhere but an actor's Receive.
type Asked struct {
	o     Options
	node  engine.Ref
	texts barTexts
}

// New starts the parent of the agents' actors in sys.
func New(sys *engine.System, o Options) *Asked {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Asked{o: o}
	a.node = sys.Spawn(engine.Supervisor, "asked", func() engine.Actor { return newNode(&a.o) }, agentFailures)
	return a
}

// Ask asks the agent of req, req.Own, which has an endpoint, for a submission. id is that of the question: a run that is
// repeated asks the same again under it. seen are the prices of the asset, or nil for a subject without. If the
// agent has nothing to submit, s and err are nil and reason is what it said, or empty.
//
// Errors are *signal.RunError: AGENT_UNREACHABLE without an answer of the status 2xx, AGENT_TIMEOUT shortly before the
// deadline of ctx, AGENT_REPLY_INVALID; or *signal.Error: KindUnavailable with the code agent_paused,
// KindTooMany with too_many_runs, KindUnavailable when the process ends. If ctx is cancelled, Ask returns its error.
func (a *Asked) Ask(ctx context.Context, id signal.RunID, req *signal.RunRequest, seen *market.Snapshot) (
	s *signal.Submission, reason string, err error) {
	s, reason, err = a.ask(ctx, id, req, seen)
	a.o.Metrics.asked(s, err)
	return s, reason, err
}

func (a *Asked) ask(ctx context.Context, id signal.RunID, req *signal.RunRequest, seen *market.Snapshot) (
	s *signal.Submission, reason string, err error) {
	agent, left := req.Own, a.o.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline) - replyMargin
	}
	within, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	begun := time.Now()
	t := &ticket{url: agent.Endpoint.URL}
	// After a panic of Read, too, the question is no longer in flight.
	end := ended{ticket: t}
	defer func() {
		if end.asked {
			end.err, _ = errors.AsType[*signal.RunError](err)
		}
		a.node.Tell(forAgent{keyOf(agent), end})
	}()
	g, err := engine.Ask(within, a.node, func(answer chan<- grant) any {
		t.answer = answer
		return forAgent{keyOf(agent), wanted{t}}
	})
	switch {
	case errors.Is(err, engine.ErrStopped):
		return nil, "", signal.Stopping(err)
	case err != nil:
		return nil, "", late(ctx, "the agent was busy with other runs for", time.Since(begun))
	case g.refusal != nil:
		return nil, "", g.refusal
	}
	body := questions.Get().(*[]byte)
	defer questions.Put(body)
	*body = appendQuestion((*body)[:0], id, req, seen, &a.texts)
	result, err := a.o.Sender.Post(within, req.Account, g.slow, sender.Request{
		To:       sender.NewDestination(agent.Endpoint.URL, agent.Endpoint.Secret),
		Body:     *body,
		Event:    signal.EventID(id),
		Type:     EventAsk,
		Delivery: signal.DeliveryID(id),
		Attempt:  1,
		At:       a.o.Now(),
		Timeout:  left,
		MaxBody:  maxReply,
	})
	switch {
	case err != nil:
		return nil, "", late(ctx, "too many requests to the agent's host were under way for", time.Since(begun))
	case result.Cancelled():
		err = late(ctx, unanswered, time.Since(begun))
		_, end.asked = errors.AsType[*signal.RunError](err)
		return nil, "", err
	}
	s, reason, err = a.read(&result, req)
	end.asked, end.took = true, result.Duration
	return s, reason, err
}

const unanswered = "the agent has not answered within"

// late returns the error of a question whose time is over, or that of ctx, its caller's, if it was cancelled.
func late(ctx context.Context, what string, since time.Duration) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return timeout(what, since)
}

func timeout(what string, d time.Duration) error {
	return &signal.RunError{Code: signal.AgentTimeout, Retryable: true,
		Message: what + " " + d.Round(100*time.Millisecond).String()}
}

// read reads the answer to req.
func (a *Asked) read(r *sender.Result, req *signal.RunRequest) (*signal.Submission, string, error) {
	switch {
	case r.Class == sender.ClassTimeout:
		return nil, "", timeout(unanswered, r.Duration)
	case r.Error != "":
		e := &signal.RunError{Code: signal.AgentUnreachable, Retryable: true, RetryAfter: r.RetryAfter,
			Message: "the agent's endpoint has failed: " + r.Error}
		if r.Class == sender.ClassRedirect {
			e.Message += ", and redirects are not followed"
		}
		return nil, "", e
	case r.TooLong:
		return nil, "", invalid(fmt.Errorf("it has more than %d bytes", maxReply))
	}
	body := []byte(r.Body)
	if reason, null, err := readNull(body); null || err != nil {
		return nil, reason, invalid(err)
	}
	s, err := a.o.Read(body, req)
	return s, "", invalid(err)
}

// invalid returns the error of a reply that cannot be read, or nil without a cause.
func invalid(cause error) error {
	if cause == nil {
		return nil
	}
	return &signal.RunError{Code: signal.AgentReplyInvalid, Cause: cause,
		Message: "the agent's reply cannot be read: " + cause.Error()}
}

// Health is what this node has seen of an agent since it was first asked, or since it was not for hours.
type Health struct {
	InFlight int // questions that are sent and not answered
	Waiting  int // that wait until fewer are in flight
	Failures int // in a row
	// PausedUntil is zero unless the agent is paused. Once it is over, one question at a time is sent until one succeeds.
	PausedUntil time.Time
	LastError   *signal.RunError // the newest, or nil
	LastErrorAt time.Time
}

// Health returns the health of an agent, on this node. It returns ctx's error, or engine.ErrStopped.
func (a *Asked) Health(ctx context.Context, account signal.AccountID, id signal.AgentID) (Health, error) {
	return engine.Ask(ctx, a.node, func(answer chan<- Health) any {
		return forAgent{agentKey{account, id}, healthWanted{answer}}
	})
}
