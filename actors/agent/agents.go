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
	// Slippage is that of backtests: how far beyond the stop a signal closes, in R.
	Slippage float64
	Outcomes Outcomes // nil: the confidence of an asset rests on its own outcomes alone
	Content  Content  // writes the texts of the content agent; default the built-in writer

	Disabled []signal.AgentID                      // agents that are neither listed nor run
	Statuses map[signal.AgentID]signal.AgentStatus // where they differ from the built-in ones

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
	}
	a.trading = newTrader(o.Market, o.Now, o.Cost)
	a.trading.outcomes = o.Outcomes
	texts := newWriter(o.Content)
	for _, agent := range signal.Agents() {
		if slices.Contains(o.Disabled, agent.ID) {
			continue
		}
		agent.Status = cmp.Or(o.Statuses[agent.ID], agent.Status)
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
// KindNotFound, KindTooMany, or KindUnavailable, when no signal was published. If ctx ends
// first Run returns its error; the run continues.
func (a *Agents) Run(ctx context.Context, req signal.RunRequest) (Outcome, error) {
	if err := a.checkStrategy(req); err != nil {
		return Outcome{}, err
	}
	if err := a.checkOpen(req.Account); err != nil {
		return Outcome{}, err
	}
	if !a.begin() {
		return Outcome{}, signal.Stopping(errDrained)
	}
	id := signal.NewRunID()
	if !a.quota.take(req.Account) {
		a.running.Done()
		return Outcome{Run: id}, tooManyRuns("too many runs at once: wait until one has ended")
	}
	r := a.newRun(id, req, nil, func() {
		a.quota.give(req.Account)
		a.running.Done()
	})
	s, err := a.await(ctx, r)
	return Outcome{Run: r.id, Signal: s}, err
}

// checkStrategy checks that the catalogue has the agent with the strategy, which also
// restricts the labels of metrics to closed lists.
func (a *Agents) checkStrategy(req signal.RunRequest) error {
	agent, err := a.Agent(req.Agent)
	if err != nil {
		return err
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

// await hands r to its agent and waits for the answer.
func (a *Agents) await(ctx context.Context, r *run) (*signal.Signal, error) {
	a.actors[r.request.Agent].Tell(runRequested{r})
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
