package agent

import (
	"cmp"
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Asker asks the agents of accounts. See asked.Asked.
type Asker interface {
	// Ask asks the agent of req for a submission, under the id of the question. Without one and an error, reason is why.
	// Errors are *signal.RunError, *signal.Error of a question that was not sent, or that of ctx.
	Ask(ctx context.Context, id signal.RunID, req *signal.RunRequest, seen *market.Snapshot) (
		s *signal.Submission, reason string, err error)
}

// OwnAgents has the agents of accounts. See persistence/agents.
type OwnAgents interface {
	// Agent returns one. KindNotFound.
	Agent(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error)
}

// CodeNoSignal is the code of the error of a run whose agent, one of an account, had nothing to submit. The run has
// completed; the message is the agent's reason.
const CodeNoSignal = "no_signal"

// noReason is the reason of an agent that gives none.
const noReason = "the agent has no signal and gave no reason"

// maxRereads is how often the agent of a run is read again because it was changed since.
const maxRereads = 3

// NotRunnable returns nil if an agent can be run, else an error of KindConflict that says why not.
func NotRunnable(a *signal.Agent) error {
	if a.Account == "" || a.Endpoint != nil {
		return nil
	}
	return &signal.Error{Kind: signal.KindConflict, Code: "not_runnable", Message: "the agent " + string(a.ID) +
		" has no endpoint at which it is asked: give it one by PATCH /v1/agents/" + string(a.ID) +
		", or submit its signals by POST /v1/agents/" + string(a.ID) + "/signals"}
}

// readOwn sets the agent of a request for one of an account, as it is stored now, unless the caller has read it.
func (a *Agents) readOwn(ctx context.Context, req *signal.RunRequest) error {
	if req.Own == nil && a.o.Own != nil && !req.Agent.BuiltIn() {
		own, err := a.o.Own.Agent(ctx, req.Account, req.Agent)
		if err != nil {
			return err
		}
		req.Own = &own
	}
	if req.Own == nil {
		return nil
	}
	return NotRunnable(req.Own)
}

// ask asks the agent of req, one of an account, and returns req with its submission, or without one the reason. With
// patience it waits, until ctx ends, while the agent has too many questions.
func (x *executor) ask(ctx context.Context, id signal.RunID, req *signal.RunRequest, patience bool) (
	answered *signal.RunRequest, reason string, err error) {
	var seen *market.Snapshot
	if req.Own.Category == signal.Trading {
		prices, err := x.submitted.trading.market.Series(ctx, req.Asset, req.Timeframe)
		if err != nil {
			return nil, "", err
		}
		seen = &prices
	}
	for {
		s, reason, err := x.asker.Ask(ctx, id, req, seen)
		if err == nil && s == nil {
			return nil, cmp.Or(reason, noReason), nil
		}
		if err == nil {
			with := *req
			with.Submission = s
			return &with, "", nil
		}
		e, ok := errors.AsType[*signal.Error](err)
		if !patience || !ok || e.Kind != signal.KindTooMany || !backoff.Sleep(ctx, e.RetryAfter) {
			return nil, "", err
		}
	}
}

// evaluateAnswer evaluates what an agent has answered. What the market shows to be invalid is the agent's fault; that the
// price has moved away meanwhile may pass.
func (x *executor) evaluateAnswer(ctx context.Context, req *signal.RunRequest) (evaluation, error) {
	c, err := x.submitted.Evaluate(ctx, req)
	const unfit = "the agent's reply does not fit the market: "
	if e, ok := errors.AsType[*InvalidError](err); ok {
		return c, &signal.RunError{Code: signal.AgentReplyInvalid, Message: unfit + e.Error()}
	}
	if e, ok := errors.AsType[*signal.Error](err); ok && e.Kind == signal.KindConflict {
		return c, &signal.RunError{Code: signal.AgentReplyInvalid, Message: unfit + e.Message, Retryable: true}
	}
	return c, err
}

// refusedError returns the error that is recorded for a run whose agent was not asked.
func refusedError(refusal error) *signal.RunError {
	e, ok := errors.AsType[*signal.Error](refusal)
	if !ok || e.Code != signal.CodeAgentPaused && e.Kind != signal.KindTooMany {
		return cancelledError("the process stopped")
	}
	return &signal.RunError{Code: signal.AgentUnreachable, Message: e.Message, Retryable: true, RetryAfter: e.RetryAfter}
}

// reread returns o with its agent as it is stored now: a submission may be recorded while the agent lives.
func (x *executor) reread(ctx context.Context, o outcome) outcome {
	own, err := x.own.Agent(context.WithoutCancel(ctx), o.submission.Account, o.submission.Agent)
	if err != nil {
		return outcome{err: goneError(err)}
	}
	with := *o.submission
	with.Own, o.submission = &own, &with
	return o
}

// goneError returns the error of a run whose agent cannot be read.
func goneError(err error) *signal.RunError {
	switch signal.KindOf(err) {
	case signal.KindNotFound:
		return &signal.RunError{Code: signal.Cancelled, Message: "the agent was removed"}
	case signal.KindConflict:
		return &signal.RunError{Code: signal.Cancelled, Message: "the agent has no endpoint any more"}
	default:
		return &signal.RunError{Code: signal.Cancelled, Message: "the agent cannot be read at the moment", Retryable: true,
			Passing: true}
	}
}
