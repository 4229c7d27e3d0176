package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Options configures Agents.
type Options struct {
	Log     Log     // required
	Market  Market  // required
	Weather Weather // nil: runs of the weather agent fail with DATA_UNAVAILABLE
	Jobs    Jobs    // nil: jobs are refused with KindUnavailable
	History History // nil: backtests are refused with KindUnavailable
	// Cost returns the cost of an entry or an exit in backtests as a share of the price,
	// by the class of the asset; default that of backtest.DefaultCosts.
	Cost func(class string) float64
	// Slippage is that of backtests on 1h: how far beyond the stop a signal closes, in R.
	Slippage float64
	Skills   Skills   // of the agents of accounts; nil: none is known
	Outcomes Outcomes // nil: the confidence of an asset rests on its own outcomes alone
	// Own has the agents of accounts, and Asker asks those with an endpoint; without both they are not run.
	Own     OwnAgents
	Asker   Asker
	Content Content // writes the texts of the content agent; default the built-in writer

	Disabled []signal.AgentID // agents that are neither listed nor run

	Timeout       time.Duration // of a run; default 30 s
	MaxConcurrent int           // synchronous runs of an account in this process; default 20
	MaxQueued     int           // queued jobs of an account; default 1,000
	MaxOpen       int           // open signals of an account; default 100,000
	// Open returns how many open signals an account has, without waiting; nil: MaxOpen
	// is not enforced. Runs under way and queued jobs may still exceed it.
	Open          func(signal.AccountID) int
	JobRetention  time.Duration // how long a job is kept after its end; default 24 h
	JobWorkers    int           // jobs at once in this process; default 2 for each core
	Workers       int           // runs of an agent at once, and as many that wait; default 1,024
	AnnounceAfter time.Duration // runs that take longer are announced before their end; default 5 ms
	// DueMargin is the time after Timeout until an announced run whose process died is
	// given up; default 15 s.
	DueMargin time.Duration

	Now     func() time.Time // the service's clock; default time.Now
	Slog    *slog.Logger     // or nil
	Metrics *Metrics         // or nil
}

// maxAttempts is how often a job is run before it ends with CANCELLED.
const maxAttempts = 3

// answerMargin is how long a caller waits beyond Timeout until the answer counts as lost.
// It is longer than the time limit of an append.
const answerMargin = 30 * time.Second

// drainGrace is how long Drain waits for runs that it has cancelled.
const drainGrace = time.Second

// Agents runs the agents of the catalogue. Its methods may be called from
// anywhere but an actor's Receive.
type Agents struct {
	o         Options
	catalogue []signal.Agent
	actors    map[signal.AgentID]engine.Ref
	exec      *executor
	quota     *quota
	trading   *trader
	alerts    func(context.Context, signal.Job) error // see OnAlert

	mu       sync.Mutex
	draining bool
	running  sync.WaitGroup // runs and jobs under way; added to under mu while not draining
}

// Outcome is how a run ended.
type Outcome struct {
	Run    signal.RunID
	Signal *signal.Signal // nil if it failed
}

// New starts an actor for each agent that is not disabled.
func New(sys *engine.System, o Options) *Agents {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 20)
	o.MaxQueued = cmp.Or(o.MaxQueued, 1000)
	o.MaxOpen = cmp.Or(o.MaxOpen, 100_000)
	o.JobRetention = cmp.Or(o.JobRetention, 24*time.Hour)
	o.JobWorkers = cmp.Or(o.JobWorkers, 2*runtime.GOMAXPROCS(0))
	o.Workers = cmp.Or(o.Workers, 1024)
	o.AnnounceAfter = cmp.Or(o.AnnounceAfter, 5*time.Millisecond)
	o.DueMargin = cmp.Or(o.DueMargin, 15*time.Second)
	if o.Cost == nil {
		o.Cost = backtest.DefaultCosts.Of
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Slog = cmp.Or(o.Slog, slog.New(slog.DiscardHandler)).With("component", "agent")

	ctx, stop := context.WithCancelCause(context.Background())
	exec := &executor{
		log:           o.Log,
		now:           o.Now,
		announceAfter: o.AnnounceAfter,
		timeout:       o.Timeout,
		dueMargin:     o.DueMargin,
		jobRetention:  o.JobRetention,
		evaluators:    make(map[signal.AgentID]evaluator),
		asker:         o.Asker,
		own:           o.Own,
		metrics:       o.Metrics,
		slog:          o.Slog,
		birth:         time.Now(),
		ctx:           ctx,
		stop:          stop,
	}
	a := &Agents{
		o:      o,
		actors: make(map[signal.AgentID]engine.Ref),
		quota:  newQuota(o.MaxConcurrent),
		exec:   exec,
		alerts: func(context.Context, signal.Job) error { return errNoAlerts },
	}
	a.trading = newTrader(o.Market, o.Now, o.Cost)
	a.trading.outcomes = o.Outcomes
	exec.submitted = &submitted{a.trading, o.Skills}
	texts := newWriter(o.Content)
	for _, agent := range signal.Agents() {
		if slices.Contains(o.Disabled, agent.ID) {
			continue
		}
		a.catalogue = append(a.catalogue, agent)
		exec.evaluators[agent.ID] = evaluatorOf(agent, a.trading, texts, o.Weather)
		a.actors[agent.ID] = sys.Spawn(engine.Agent, string(agent.ID), func() engine.Actor {
			return &agentActor{exec: exec, workers: o.Workers, queue: o.Workers}
		}, engine.Supervision{})
	}
	return a
}

// evaluatorOf returns the evaluator of agent.
func evaluatorOf(agent signal.Agent, trading *trader, texts *writer, w Weather) evaluator {
	switch agent.Category {
	case signal.Trading:
		return trading
	case signal.Content:
		return texts
	case signal.Weather:
		if w != nil {
			return &forecaster{w, trading}
		}
	}
	return unavailable{agent.Name}
}

// unavailable is an agent without a source of data. Its runs fail with DATA_UNAVAILABLE.
type unavailable struct{ name string }

// Evaluate implements evaluator.
func (u unavailable) Evaluate(context.Context, *signal.RunRequest) (evaluation, error) {
	return evaluation{}, &signal.RunError{Code: signal.DataUnavailable,
		Message: "the " + u.name + " has no data source in this version of the service"}
}

// Catalogue returns the agents in the order of their listing. The caller must not change them.
func (a *Agents) Catalogue() []signal.Agent { return a.catalogue }

// Agent returns one agent of the catalogue, or KindNotFound.
func (a *Agents) Agent(id signal.AgentID) (signal.Agent, error) {
	for _, agent := range a.catalogue {
		if agent.ID == id {
			return agent, nil
		}
	}
	return signal.Agent{}, signal.NotFound("agent")
}

// Run executes one run and returns when its outcome is stored. An asset with prices must be
// given by its catalogue name, under which the signal is stored. The error is a
// *signal.RunError if the run failed (Outcome.Run names it), else a *signal.Error:
// KindNotFound, KindTooMany, or KindUnavailable, when no signal was published; of an account's agent also KindConflict:
// CodeNoSignal, or not_runnable. If ctx ends first Run returns its error; the run continues.
func (a *Agents) Run(ctx context.Context, req signal.RunRequest) (Outcome, error) {
	if err := a.readOwn(ctx, &req); err != nil {
		return Outcome{}, err
	}
	r, err := a.admit(req)
	if err != nil {
		return Outcome{}, err
	}
	s, err := a.await(ctx, r)
	return Outcome{Run: r.id, Signal: s}, err
}

// admit returns a synchronous run for which the account has a place.
func (a *Agents) admit(req signal.RunRequest) (*run, error) {
	if err := a.checkStrategy(req); err != nil {
		return nil, err
	}
	if err := a.checkOpen(req.Account); err != nil {
		return nil, err
	}
	if !a.begin() {
		return nil, signal.Stopping(errDrained)
	}
	if !a.quota.take(req.Account) {
		a.running.Done()
		return nil, tooManyRuns("too many runs at once: wait until one has ended")
	}
	return a.newRun(signal.NewRunID(), req, nil, func() {
		a.quota.give(req.Account)
		a.running.Done()
	}), nil
}

// Accept records what an account's agent has concluded: the members of a run with a Submission, whose fields must be
// valid. It is Run, but the agent is not asked. Further errors are *InvalidError, and *signal.Error of KindConflict:
// price_moved, or agent_changed if req.Own is not the stored agent any more.
func (a *Agents) Accept(ctx context.Context, req signal.RunRequest) (Outcome, error) {
	r, err := a.admit(req)
	if err != nil {
		return Outcome{}, err
	}
	go a.exec.accept(r)
	select {
	case got := <-r.answer:
		return Outcome{Run: r.id, Signal: got.signal}, got.err
	case <-ctx.Done():
		return Outcome{Run: r.id}, ctx.Err()
	}
}

// checkStrategy checks that the catalogue has the agent with the strategy, which also
// restricts the labels of metrics to closed lists.
func (a *Agents) checkStrategy(req signal.RunRequest) error {
	agent := req.Own
	if agent == nil {
		listed, err := a.Agent(req.Agent)
		if err != nil {
			return err
		}
		agent = &listed
	}
	if !agent.Has(req.Strategy) {
		const message = "the agent has no such strategy"
		return &signal.Error{Kind: signal.KindInvalid, Code: "invalid_request", Message: message}
	}
	return nil
}

// checkOpen checks that an account may have another open signal.
func (a *Agents) checkOpen(account signal.AccountID) error {
	if a.o.Open == nil || a.o.Open(account) < a.o.MaxOpen {
		return nil
	}
	return &signal.Error{Kind: signal.KindTooMany, Code: signal.CodeTooManySignals, RetryAfter: time.Minute,
		Message: "the account has " + strconv.Itoa(a.o.MaxOpen) +
			" open signals, which is as many as it may have: wait until some have closed"}
}

// newRun returns a run; free releases what was taken for it.
func (a *Agents) newRun(id signal.RunID, req signal.RunRequest, job *signal.Job, free func()) *run {
	return &run{
		id:       id,
		request:  req,
		job:      job,
		accepted: a.exec.since(),
		answer:   make(chan answer, 1),
		free:     free,
	}
}

// begin counts a run as under way. It returns false once Drain was called.
func (a *Agents) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return false
	}
	a.running.Add(1)
	return true
}

// await hands r to its agent and waits for the answer. The agents of accounts have their actors in package asked.
func (a *Agents) await(ctx context.Context, r *run) (*signal.Signal, error) {
	if r.request.Own != nil {
		go a.exec.execute(r)
	} else {
		a.actors[r.request.Agent].Tell(runRequested{r})
	}
	limit := time.NewTimer(a.o.Timeout + answerMargin)
	defer limit.Stop()
	select {
	case got := <-r.answer:
		return got.signal, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-limit.C:
		// The agent's actor failed while it held the run, or has stopped.
		r.release()
		e := signal.Unavailable(errors.New("no answer from agent " + string(r.request.Agent)))
		e.Message = "the agent does not answer: try again"
		return nil, e
	}
}

// Submit queues a run, as Run takes it, and returns its job. reply, unless nil, makes the answer that is
// stored with the job for the request's Idempotency-Key. Errors are *signal.Error:
// KindNotFound, KindTooMany, KindUnavailable; KindConflict, not_runnable.
func (a *Agents) Submit(ctx context.Context, req signal.RunRequest,
	reply func(signal.Job) *signal.Reply) (signal.Job, error) {
	return a.submit(ctx, signal.Job{Request: req}, reply)
}

// SubmitScan queues a scan of assets by one strategy; the request names no asset. Errors
// are those of Submit.
func (a *Agents) SubmitScan(ctx context.Context, req signal.RunRequest, assets []string) (signal.Job, error) {
	return a.submit(ctx, signal.Job{Kind: signal.JobScan, Request: req, Assets: assets}, nil)
}

// SubmitBacktest queues a backtest of signals made between from and to; a zero time means
// no bound. Errors are those of Submit.
func (a *Agents) SubmitBacktest(ctx context.Context, req signal.RunRequest, from, to time.Time) (signal.Job, error) {
	return a.submit(ctx, signal.Job{Kind: signal.JobBacktest, Request: req, From: from, To: to}, nil)
}

// submit is Submit for jobs of all kinds.
func (a *Agents) submit(ctx context.Context, j signal.Job, reply func(signal.Job) *signal.Reply) (signal.Job, error) {
	if err := a.readOwn(ctx, &j.Request); err != nil {
		return signal.Job{}, err
	}
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

// OnAlert makes f carry out the jobs of kind signal.JobAlert, and end them. After an error they are taken again. It must be
// called before Work.
func (a *Agents) OnAlert(f func(context.Context, signal.Job) error) { a.alerts = f }

// Work takes jobs and executes them until ctx ends. It then returns nil without waiting
// for jobs under way, which Drain does. It continues after errors of the store.
func (a *Agents) Work(ctx context.Context) error {
	w := &worker{agents: a, jobs: a.o.Jobs, analyses: newAnalyst(a),
		metrics: a.o.Metrics, log: a.o.Slog}
	return w.run(ctx)
}

// Drain refuses new runs and jobs and waits for those under way. When ctx ends it
// cancels them: synchronous runs end with CANCELLED, jobs are left to another
// process. The context of Work must have ended before.
func (a *Agents) Drain(ctx context.Context) error {
	a.mu.Lock()
	a.draining = true
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		a.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		a.exec.stop(errDrained)
		return nil
	case <-ctx.Done():
	}
	a.exec.stop(errDrained)
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-grace.C:
		return ctx.Err()
	}
}

// tooManyRuns returns the error of a run that was not admitted.
func tooManyRuns(message string) *signal.Error {
	return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: message, RetryAfter: time.Second}
}

// quota limits the synchronous runs of an account in this process. A run gives its place
// back before its caller gets the answer, so that a sequential client never reaches the
// limit. Jobs are limited by the length of their queue and by their workers.
type quota struct {
	limit int

	mu   sync.Mutex
	runs map[signal.AccountID]int
}

func newQuota(limit int) *quota { return &quota{limit: limit, runs: make(map[signal.AccountID]int)} }

// take takes a place, and returns false if the account has none left.
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
