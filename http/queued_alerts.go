package http

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// bounded carries out a, or queues it if that takes longer than h.Wait.
func (h *AlertHandlers) bounded(c *call, a *alert) (alertAnswer, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.r.Context()))
	defer cancel()
	type result struct {
		alert
		answer alertAnswer
		err    error
	}
	a.claim = make(chan struct{}, 1)
	a.claim <- struct{}{}
	r := &result{alert: *a, err: panics.ErrPanicked}
	done := make(chan *result, 1)
	go func() {
		panics.Guard(h.log, panics.Jobs, func() { r.answer, r.err = h.carryOut(ctx, &r.alert) }, "request", c.id)
		done <- r
	}()
	late := time.NewTimer(h.Wait - time.Since(c.start))
	defer late.Stop()
	select {
	case r := <-done:
		*a = r.alert
		return r.answer, r.err
	case <-late.C:
	}
	limited, stop := context.WithTimeout(ctx, queueTimeout)
	defer stop()
	select {
	case r := <-done: // it was being appended
		*a = r.alert
		return r.answer, r.err
	case <-a.claim:
		return h.queue(limited, c, a)
	case <-limited.Done():
		return alertAnswer{}, signal.Unavailable(errors.New("it is not known whether the alert was appended"))
	}
}

// queue acknowledges a, whose claim the caller has.
func (h *AlertHandlers) queue(ctx context.Context, c *call, a *alert) (alertAnswer, error) {
	j := &signal.Job{ID: signal.NewJobID(), Run: signal.NewRunID(), Kind: signal.JobAlert, Status: signal.JobQueued,
		CreatedAt: a.received, Request: signal.RunRequest{Account: a.agent.Account, Agent: a.agent.ID},
		Alert: &signal.QueuedAlert{Intake: a.intake.ID, RequestID: c.id, Body: a.body}}
	for range alertAttempts {
		_, err := h.Events.Append(ctx, signal.Change{Account: a.agent.Account, Agent: &a.agent, Alert: &signal.Alert{
			Intake: a.intake.ID, Received: a.received, Queued: j}})
		if signal.CodeOf(err) == "agent_changed" {
			if err := h.reread(ctx, a); err != nil {
				return alertAnswer{}, err
			}
			continue
		}
		if err != nil {
			return alertAnswer{}, err
		}
		body, err := encode(alertResult{Reason: "queued"})
		return alertAnswer{status: http.StatusAccepted, body: body}, err
	}
	return alertAnswer{}, errOvertaken
}

// CarryOut carries out the queued alert of a job, and ends the job. After an error the job is to be taken again.
func (h *AlertHandlers) CarryOut(ctx context.Context, j signal.Job) error {
	a := &alert{received: j.CreatedAt, body: j.Alert.Body, job: &j, fresh: true}
	a.agent.Account, a.agent.ID, a.intake.ID = j.Request.Account, j.Request.Agent, j.Alert.Intake
	var last error
	for {
		err := h.finish(ctx, a, last)
		if err == nil || signal.CodeOf(err) == "job_lost" {
			return err
		}
		if last = err; !backoff.Sleep(ctx, retryQueued) {
			return err
		}
	}
}

// finish carries out the queued alert a, or ends it with what is wrong with it. After an error it is to be tried again; last
// is the error of the attempt before.
func (h *AlertHandlers) finish(ctx context.Context, a *alert, last error) error {
	ended := &signal.Alert{Intake: a.intake.ID, Job: a.job}
	end := signal.Change{Account: a.agent.Account, Alert: ended}
	err := h.reread(ctx, a)
	switch {
	case errors.Is(err, errNoIntake): // its list of requests is gone with it
		_, err = h.Events.Append(ctx, end)
		return err
	case err != nil:
		return err
	}
	var answer alertAnswer
	if h.Now().Sub(a.received) > queuedFor {
		err = expired("the alert was not carried out within a minute", last)
	} else {
		answer, err = h.carryOut(ctx, a)
	}
	switch {
	case err == nil && answer.repeated:
		ended.Request = a.request(0, "repeated", nil)
	case err == nil || signal.CodeOf(err) == "job_lost" || passing(ctx, err):
		return err
	default:
		p := newProblem(err)
		ended.Request = a.request(0, "", p.document("/v1/intake/{token}", a.job.Alert.RequestID))
	}
	end.Agent = &a.agent
	_, err = h.Events.Append(ctx, end)
	return err
}

// passing reports whether what failed with err may succeed in a moment.
func passing(ctx context.Context, err error) bool {
	if failed, ok := errors.AsType[*runFailed](err); ok {
		return failed.Passing
	}
	switch signal.CodeOf(err) {
	case "agent_changed", "alert_overtaken", "idempotency_in_progress":
		return true
	}
	kind := signal.KindOf(err)
	return kind == signal.KindUnavailable || kind == signal.KindTooMany || ctx.Err() != nil
}

// expired is the end of a queued alert that is not carried out.
func expired(why string, last error) error {
	if last != nil {
		why += ": " + newProblem(last).Detail
	}
	return &signal.Error{Kind: signal.KindConflict, Code: "expired_alert", Message: why}
}

// reread reads the agent and the intake of a again.
func (h *AlertHandlers) reread(ctx context.Context, a *alert) error {
	agent, in, err := h.Intakes.OfIntake(ctx, a.agent.Account, a.agent.ID, a.intake.ID)
	if signal.KindOf(err) == signal.KindNotFound {
		return errNoIntake
	}
	if err == nil {
		a.agent, a.intake = agent, in
	}
	return err
}
