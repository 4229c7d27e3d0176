package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/jsonobject"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Log records events and signals. See eventlog.Log.
type Log interface {
	// Append records c and returns the position of its first event; the k-th is at
	// Plus(k). Errors are *signal.Error: KindUnavailable if it is not known whether
	// c was recorded, KindConflict if a guard refused it. Without an error nothing of
	// c is used after the return.
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// evaluation is an agent's answer to a request.
type evaluation struct {
	Direction  signal.Direction
	Confidence float64
	Levels     *signal.Levels   // nil for content
	Reach      *signal.Reach    // of levels that an account's agent has chosen
	Metadata   []byte           // JSON
	Lifetime   time.Duration    // wall time from creation to expiry
	Timeframe  signal.Timeframe // of the prices; empty: that of the request
	Weather    *signal.Outlook  // of a weather run; else nil
}

// evaluator implements the agents of one category. To the client an error other than
// *signal.RunError is INTERNAL. Evaluate returns soon after ctx ends.
type evaluator interface {
	Evaluate(ctx context.Context, r *signal.RunRequest) (evaluation, error)
}

// run is one execution of an agent.
type run struct {
	id       signal.RunID
	request  signal.RunRequest
	job      *signal.Job   // nil for a synchronous run
	accepted time.Duration // since the executor's start; the time limit counts from here
	answer   chan answer   // of length 1
	free     func()        // releases what was taken for the run; called once, before the answer
	released atomic.Bool   // free was called

	started time.Time // by the service's clock; set when a worker takes the run
	refused bool      // it was not valid, or its agent could not be asked; nothing of it is recorded unless it was announced
	due     time.Time // when others give the run up; zero for a job, or if not announced
}

// release calls free, once.
func (r *run) release() {
	if !r.released.Swap(true) {
		r.free()
	}
}

// settle releases r and answers its caller. Only the first answer counts.
func (r *run) settle(s *signal.Signal, err error) {
	r.release()
	select {
	case r.answer <- answer{s, err}:
	default:
	}
}

// answer is what the caller of a run gets.
type answer struct {
	signal *signal.Signal // nil if err is not
	err    error          // *signal.RunError or *signal.Error
}

// outcome is the result of computing a run: one of the first four members.
type outcome struct {
	evaluation *evaluation
	reason     string // why an account's agent that was asked has no signal
	err        *signal.RunError
	refused    error // a submission that is not valid, or an agent that could not be asked: recorded only where it must be

	// Of the evaluation of a submission.

	submission *signal.RunRequest
	begun      time.Time // before its price was taken
}

// Why a run's context ends.
var (
	errTimeout = errors.New("run timed out")
	errDrained = errors.New("process ends")
)

// errInterrupted is the answer of a job whose process ends. Another process runs it.
var errInterrupted = &signal.Error{
	Kind:    signal.KindUnavailable,
	Code:    "unavailable",
	Message: "the job was interrupted",
}

// errNotRecorded is the answer of a run whose recording panicked.
var errNotRecorded = &signal.Error{
	Kind:    signal.KindInternal,
	Code:    "internal",
	Message: "the run could not be recorded",
}

// lateMargin is how long before its Due a run can no longer be recorded. It is longer
// than an append takes.
const lateMargin = 5 * time.Second

// retryAppend is the pause before the outcome of a job is appended again.
const retryAppend = time.Second

// executor executes runs. It may be used from any goroutine.
type executor struct {
	log           Log
	now           func() time.Time // the service's clock
	announceAfter time.Duration
	timeout       time.Duration
	dueMargin     time.Duration
	jobRetention  time.Duration
	evaluators    map[signal.AgentID]evaluator
	submitted     *submitted
	asker         Asker     // nil: agents of accounts are not run
	own           OwnAgents // as asker
	metrics       *Metrics
	slog          *slog.Logger
	birth         time.Time // origin of run.accepted

	// ctx is the parent of all runs; stop ends them with errDrained.
	ctx  context.Context
	stop context.CancelCauseFunc
}

// since returns the age of the executor by the monotonic clock.
func (x *executor) since() time.Duration { return time.Since(x.birth) }

// execute runs r and answers its caller. It returns when the computation is over, which
// may be after the answer.
//
// A timer decides who records the run. If it can be stopped after the computation, nothing
// has been recorded yet and this goroutine records the whole run. Otherwise the timer's
// goroutine announces the run, or has done so, and receives the outcome. So the
// announcement comes before the end, and the end is recorded once and in time, even if the
// computation never ends.
func (x *executor) execute(r *run) {
	x.metrics.runStarted(r.request.Agent)
	r.started = x.now()
	ctx, cancel := context.WithCancelCause(x.ctx)
	computed := make(chan outcome, 1)
	announce := time.AfterFunc(x.announceAfter, func() {
		defer cancel(nil)
		x.end(r, func() (*signal.Signal, error) { return x.recordAnnounced(ctx, cancel, r, computed) })
	})
	o := x.compute(limited{ctx, time.Now().Add(x.timeout - (x.since() - r.accepted))}, r)
	if announce.Stop() {
		defer cancel(nil)
		x.end(r, func() (*signal.Signal, error) { return x.record(ctx, r, o, false) })
		return
	}
	computed <- o
}

// limited is the context of a run that knows when recordAnnounced will cancel it. A timer in each run costs more.
type limited struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (l limited) Deadline() (time.Time, bool) { return l.deadline, true }

// accept records a submission and answers. What the market shows to be invalid leaves no trace: the error is then no
// *signal.RunError.
func (x *executor) accept(r *run) {
	x.metrics.runStarted(r.request.Agent)
	r.started = x.now()
	ctx, cancel := context.WithTimeoutCause(x.ctx, x.timeout, errTimeout)
	defer cancel()
	o := x.compute(ctx, r)
	x.end(r, func() (*signal.Signal, error) { return x.record(ctx, r, o, false) })
}

// maxEvaluation is how long ago the price of a submission may have been taken when it is appended.
const maxEvaluation = time.Second

// current returns o, evaluated again while its price may be another one by now.
func (x *executor) current(ctx context.Context, r *run, o outcome) outcome {
	for o.submission != nil && time.Since(o.begun) > maxEvaluation {
		if cause := context.Cause(ctx); cause != nil {
			return outcome{err: endedError(cause)}
		}
		o = x.guarded(r, func() outcome { return x.evaluate(ctx, r, o.submission) })
	}
	return o
}

// fail records the end of a run that is not executed, and answers.
func (x *executor) fail(r *run, failure *signal.RunError) {
	x.metrics.runStarted(r.request.Agent)
	r.started = x.now()
	x.end(r, func() (*signal.Signal, error) { return x.record(context.Background(), r, outcome{err: failure}, false) })
}

// end ends a run that has begun: record stores its outcome, the end is counted and the
// caller gets the answer.
func (x *executor) end(r *run, record func() (*signal.Signal, error)) {
	var s *signal.Signal
	var err error
	func() {
		defer func() {
			if reason := recover(); reason != nil {
				x.slog.Error("recording a run panicked",
					"agent", string(r.request.Agent),
					"run", string(r.id),
					"panic", fmt.Sprint(reason),
					"stack", string(debug.Stack()))
				s, err = nil, errNotRecorded
			}
		}()
		s, err = record()
	}()
	x.metrics.runEnded(r, s, err, x.now().Sub(r.started))
	r.settle(s, err)
}

// compute evaluates r, after its agent was asked if it is one of an account.
func (x *executor) compute(ctx context.Context, r *run) outcome {
	return x.guarded(r, func() outcome {
		req := &r.request
		if req.Own != nil && req.Submission == nil {
			answered, reason, err := x.ask(market.For(ctx, req.Account), r.id, req, r.job != nil)
			switch {
			case err != nil:
				return x.failed(ctx, r, err)
			case answered == nil:
				return outcome{reason: reason}
			}
			req = answered
		}
		return x.evaluate(ctx, r, req)
	})
}

// guarded calls f. A panic of the agent fails the run and nothing else.
func (x *executor) guarded(r *run, f func() outcome) (o outcome) {
	defer func() {
		if reason := recover(); reason != nil {
			x.slog.Error("run panicked",
				"agent", string(r.request.Agent),
				"run", string(r.id),
				"panic", fmt.Sprint(reason),
				"stack", string(debug.Stack()))
			o = outcome{err: internalError(nil)}
		}
	}()
	return f()
}

// evaluate evaluates req, which is the request of r, or that with the answer of its agent.
func (x *executor) evaluate(ctx context.Context, r *run, req *signal.RunRequest) outcome {
	begun, o := time.Now(), outcome{}
	var c evaluation
	var err error
	priced := market.For(ctx, req.Account)
	switch {
	case req.Submission == nil:
		c, err = x.evaluators[req.Agent].Evaluate(priced, req)
	case r.request.Submission == nil:
		c, err = x.evaluateAnswer(priced, req)
		o.submission, o.begun = req, begun
	default:
		c, err = x.submitted.Evaluate(priced, req)
		o.submission, o.begun = req, begun
	}
	if err != nil {
		return x.failed(ctx, r, err)
	}
	o.evaluation = &c
	return o
}

// failed returns the outcome of r after an error.
func (x *executor) failed(ctx context.Context, r *run, err error) outcome {
	if cause := context.Cause(ctx); cause != nil {
		return outcome{err: endedError(cause)} // err is a consequence of it
	}
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return outcome{err: e}
	}
	if _, known := errors.AsType[*signal.Error](err); r.request.Submission != nil || r.request.Own != nil && known {
		return outcome{refused: err}
	}
	x.slog.Error("run failed", "agent", string(r.request.Agent), "run", string(r.id), "err", err)
	return outcome{err: internalError(err)}
}

// recordAnnounced announces r, waits for its outcome and records that, in a goroutine of
// its own.
func (x *executor) recordAnnounced(ctx context.Context, cancel context.CancelCauseFunc, r *run,
	computed <-chan outcome) (*signal.Signal, error) {
	left := max(0, x.timeout-(x.since()-r.accepted))
	limit := time.AfterFunc(left, func() { cancel(errTimeout) })
	defer limit.Stop()
	if err := x.announce(r, left); err != nil {
		// It is not known whether the log has the announcement, so nothing may follow
		// it. If it has, the run's Due ends it with CANCELLED.
		return nil, err
	}
	var o outcome
	select {
	case o = <-computed:
	case <-ctx.Done():
		select {
		case o = <-computed: // just in time
		default:
			o.err = endedError(context.Cause(ctx))
		}
	}
	return x.record(ctx, r, o, true)
}

// announce records agent.started alone. If this process dies, a job is run again, and
// another run is ended by its Due.
func (x *executor) announce(r *run, left time.Duration) error {
	started := x.event(r, signal.AgentStarted, appendStarted(nil, r))
	c := signal.Change{Account: r.request.Account, Events: []signal.Event{started}}
	if r.job == nil {
		r.due = x.now().Add(left + x.dueMargin)
		c.Due = &signal.RunDue{Run: r.id, Agent: r.request.Agent, At: r.due}
	}
	_, err := x.append(r, c)
	return err
}

// record stores the outcome of r and returns the answer. ctx is that of r.
func (x *executor) record(ctx context.Context, r *run, o outcome, announced bool) (*signal.Signal, error) {
	for range maxRereads {
		o = x.current(ctx, r, o)
		s, err := x.store(r, o, context.Cause(ctx), announced)
		if signal.CodeOf(err) != signal.CodeAgentChanged || r.request.Submission != nil {
			return s, err
		}
		o = x.reread(ctx, o)
	}
	return x.store(r, outcome{err: cancelledError("the agent was changed again and again")}, nil, announced)
}

// store is record for an agent that is not changed meanwhile. cause is why r's context ended, or nil.
func (x *executor) store(r *run, o outcome, cause error, announced bool) (*signal.Signal, error) {
	refused := o.refused
	if refused != nil {
		if r.refused = r.job == nil; r.refused && !announced {
			return nil, refused
		}
		o = outcome{err: refusedError(refused)}
	}
	if r.job != nil && o.err != nil && errors.Is(cause, errDrained) {
		return nil, errInterrupted
	}
	if !r.due.IsZero() && x.now().After(r.due.Add(-lateMargin)) {
		// This process was suspended: another one records the end of the run, or has.
		return nil, cancelledError("the run was given up")
	}
	buffer := changeBuffers.Get().(*changeBuffer)
	c := x.change(buffer, r, o, announced)
	first, err := x.append(r, c)
	if err != nil {
		return nil, err // the log may still use the buffer
	}
	defer buffer.free()
	switch {
	case r.refused:
		return nil, refused
	case o.err != nil:
		return nil, o.err
	case o.evaluation == nil:
		return nil, &signal.Error{Kind: signal.KindConflict, Code: CodeNoSignal, Message: o.reason}
	}
	s := c.Signal
	for i := range c.Events {
		if c.Events[i].Type == signal.SignalCreated {
			s.CreatedAt = first.Plus(i).Time()
		}
	}
	s.UpdatedAt, s.ExpiresAt = s.CreatedAt, s.CreatedAt.Add(o.evaluation.Lifetime.Truncate(time.Millisecond))
	return s, nil
}

// changeBuffer is memory for the events of a change that records the end of a run.
type changeBuffer struct {
	events   [3]signal.Event
	payloads []byte // of all events
}

var changeBuffers = sync.Pool{New: func() any { return &changeBuffer{} }}

// maxKeptPayloads is the maximum size of the payloads of a run, in bytes, whose memory is reused.
const maxKeptPayloads = 16 << 10

// free makes the buffer available for other runs. Nothing may use it any more.
func (b *changeBuffer) free() {
	if cap(b.payloads) > maxKeptPayloads {
		return
	}
	clear(b.events[:])
	changeBuffers.Put(b)
}

// change returns the change that records the end of r, whose events are in buffer.
func (x *executor) change(buffer *changeBuffer, r *run, o outcome, announced bool) signal.Change {
	now := x.now()
	c := signal.Change{Account: r.request.Account, Events: buffer.events[:0]}
	switch {
	case o.submission != nil:
		c.Agent = o.submission.Own
	case r.request.Submission != nil:
		c.Agent = r.request.Own
	}
	size := 512 + len(r.request.Asset)*3
	if o.evaluation != nil {
		size += 512 + len(o.evaluation.Metadata)
	}
	b := slices.Grow(buffer.payloads[:0], size)
	buffer.payloads = b
	add := func(t signal.EventType, end []byte) {
		c.Events = append(c.Events, x.event(r, t, end[len(b):len(end):len(end)]))
		b = end
	}
	if announced && r.job == nil {
		c.Ended = r.id
	}
	if !announced {
		add(signal.AgentStarted, appendStarted(b, r))
	}
	if r.job != nil {
		j := *r.job
		j.CompletedAt, j.ExpiresAt = now, now.Add(x.jobRetention)
		c.Job = &j
	}
	if o.err != nil {
		add(signal.AgentFailed, signal.AppendRunError(b, r.request.Agent, r.id, o.err))
		if c.Job != nil {
			c.Job.Status, c.Job.Error = signal.JobFailed, o.err
		}
		return c
	}
	if o.evaluation == nil {
		add(signal.AgentCompleted, appendCompleted(b, r, "", now))
		if c.Job != nil {
			c.Job.Status, c.Job.Reason = signal.JobCompleted, o.reason
		}
		return c
	}
	s := newSignal(r, o.evaluation, now)
	c.Signal, c.Alert = s, r.request.Alert
	add(signal.SignalCreated, appendCreated(b, s))
	listing := s.Listing()
	e := &c.Events[len(c.Events)-1]
	e.Asset, e.Listing, e.Initial = s.Asset, &listing, s.Initial
	add(signal.AgentCompleted, appendCompleted(b, r, s.ID, now))
	if c.Job != nil {
		c.Job.Status, c.Job.Signal = signal.JobCompleted, s
		return c
	}
	kept := func(k *signal.ReplyKey) *signal.Reply {
		if k == nil {
			return nil
		}
		return &signal.Reply{ReplyKey: *k, Status: 200, Header: map[string]string{"X-Run-Id": string(r.id)}}
	}
	c.Reply, c.Reference = kept(r.request.Reply), kept(r.request.Reference)
	return c
}

// newSignal makes the signal of r. Its times are those of its append and not known yet:
// until then they only state the lifetime, which the log keeps.
func newSignal(r *run, c *evaluation, now time.Time) *signal.Signal {
	q := &r.request
	confidence := signal.RoundConfidence(c.Confidence)
	id, metadata := signal.NewSignalID(), c.Metadata
	if c.Weather != nil {
		metadata = linked(metadata, id.Weather())
	}
	return &signal.Signal{ID: id, Account: q.Account, Agent: q.Agent, Run: r.id, Asset: q.Asset,
		Strategy: q.Strategy, Timeframe: cmp.Or(c.Timeframe, q.Timeframe), Risk: q.Risk, Direction: c.Direction,
		Confidence: confidence, FirstConfidence: confidence, Levels: c.Levels, Reach: c.Reach, Weather: c.Weather,
		Metadata:  metadata,
		Initial:   &signal.Initial{Confidence: confidence, ExpectedRNet: expectedRNet(metadata)},
		CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(c.Lifetime.Truncate(time.Millisecond)), Sequence: 1}
}

// expectedRNet returns the member expected_r_net of metadata, or nil without a number there.
func expectedRNet(metadata json.RawMessage) *float64 {
	text := jsonobject.Trim(metadata)
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	for name, value := range jsonobject.Members(text) {
		if string(name) != "expected_r_net" {
			continue
		}
		if x, err := strconv.ParseFloat(string(value), 64); err == nil {
			return &x
		}
	}
	return nil
}

// event makes an event of r with the given payload.
func (x *executor) event(r *run, t signal.EventType, data []byte) signal.Event {
	e := signal.Event{ID: signal.NewEventID(), Account: r.request.Account, Type: t, Data: data}
	if t != signal.SignalCreated {
		e.Agent, e.Asset, e.Strategy, e.Run = r.request.Agent, r.request.Asset, r.request.Strategy, r.id
	}
	return e
}

// append records c. For a job it retries until c is stored, another process has taken the
// job, or this process ends: no client waits for it, and the guard of the job admits its
// outcome once.
func (x *executor) append(r *run, c signal.Change) (signal.Position, error) {
	for {
		p, err := x.log.Append(context.WithoutCancel(x.ctx), c)
		if err == nil || r.job == nil || signal.KindOf(err) != signal.KindUnavailable {
			return p, err
		}
		if !backoff.Sleep(x.ctx, retryAppend) {
			return p, err
		}
	}
}

// endedError returns the error of a run whose context ended by cause.
func endedError(cause error) *signal.RunError {
	if errors.Is(cause, errTimeout) {
		return &signal.RunError{Code: signal.Timeout, Message: "the run took too long", Retryable: true, Cause: cause}
	}
	return cancelledError("the process stopped")
}

// cancelledError returns the error of a run that this process has not finished.
func cancelledError(message string) *signal.RunError {
	return &signal.RunError{Code: signal.Cancelled, Message: message, Retryable: true, Passing: true}
}

func internalError(cause error) *signal.RunError {
	return &signal.RunError{Code: signal.Internal, Message: "the agent failed unexpectedly", Cause: cause}
}
