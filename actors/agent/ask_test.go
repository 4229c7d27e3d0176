package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// fakeAsker answers for the agents of accounts by a function.
type fakeAsker struct {
	mu     sync.Mutex
	answer func(ctx context.Context, req *signal.RunRequest) (*signal.Submission, string, error)
	ids    []signal.RunID // of the questions
	seen   []*market.Snapshot
}

func (f *fakeAsker) Ask(ctx context.Context, id signal.RunID, req *signal.RunRequest, seen *market.Snapshot) (
	*signal.Submission, string, error) {
	f.mu.Lock()
	f.ids, f.seen = append(f.ids, id), append(f.seen, seen)
	answer := f.answer
	f.mu.Unlock()
	if answer == nil {
		return &signal.Submission{Direction: signal.Long}, "", nil
	}
	return answer(ctx, req)
}

func (f *fakeAsker) asked() []signal.RunID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ids)
}

// fakeOwn has one agent, or none.
type fakeOwn struct {
	mu    sync.Mutex
	agent *signal.Agent
}

func (f *fakeOwn) Agent(_ context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.agent == nil || f.agent.Account != account || f.agent.ID != id {
		return signal.Agent{}, signal.NotFound("agent")
	}
	return *f.agent, nil
}

func (f *fakeOwn) set(a *signal.Agent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.agent = a
}

func ownAgent(revision string) *signal.Agent {
	return &signal.Agent{ID: "mine", Account: "acc_1", Category: signal.Trading, Strategies: []string{"cross"},
		Revision: revision, Endpoint: &signal.Endpoint{URL: "https://agent.example/"}}
}

func ownRequest() signal.RunRequest {
	return signal.RunRequest{Account: "acc_1", Agent: "mine", Asset: "BTC", Strategy: "cross", Timeframe: signal.H1,
		Risk: signal.MediumRisk}
}

// withAsked calls f with a bench that has one agent of an account.
func withAsked(t *testing.T, f func(t *testing.T, b *bench, asker *fakeAsker, own *fakeOwn)) {
	asker, own := &fakeAsker{}, &fakeOwn{agent: ownAgent("1")}
	withBench(t, Options{Own: own, Asker: asker, JobWorkers: 1}, func(t *testing.T, b *bench) { f(t, b, asker, own) })
}

var paused = &signal.Error{Kind: signal.KindUnavailable, Code: signal.CodeAgentPaused, Message: "paused", RetryAfter: time.Second}

func TestAnAskedRunIsASubmission(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		got, err := b.agents.Run(t.Context(), ownRequest())
		if err != nil {
			t.Fatal(err)
		}
		b.expect(wholeRun)
		c := b.log.all()[0]
		if c.Agent == nil || c.Agent.Revision != "1" || got.Signal.Direction != signal.Long || got.Signal.Levels == nil ||
			got.Signal.Agent != "mine" || asker.asked()[0] != got.Run || len(asker.seen[0].Bars) != 1500 {
			t.Errorf("%+v, %+v", c, got.Signal)
		}
	})
}

// The run of an agent without a signal has completed.
func TestAnAskedRunWithoutASignal(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			time.Sleep(time.Second)
			return nil, "quiet", nil
		}
		got, err := b.agents.Run(t.Context(), ownRequest())
		if signal.CodeOf(err) != CodeNoSignal || err.Error() != "quiet" || got.Run == "" || got.Signal != nil {
			t.Errorf("it ends with %+v, %v", got, err)
		}
		b.expect(startedOnly, eventTypes{signal.AgentCompleted})
		if c := b.log.all()[1]; c.Ended != got.Run ||
			!strings.Contains(string(c.Events[0].Data), `"signal_id":null,"duration_ms":1000`) {
			t.Errorf("%+v %s", c, c.Events[0].Data)
		}
		b.submit(ownRequest())
		b.workFor(3 * time.Second)
		all := b.log.all()
		if j := all[len(all)-1].Job; j == nil || j.Status != signal.JobCompleted || j.Signal != nil || j.Error != nil ||
			j.Reason != "quiet" {
			t.Errorf("its job ends as %+v", j)
		}
	})
}

// A run whose agent is not asked leaves no trace, unless it was announced or is a job.
func TestAPausedAgentIsNotRun(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		m := NewMetrics(prometheus.NewRegistry())
		b.agents.exec.metrics = m
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) { return nil, "", paused }
		if _, err := b.agents.Run(t.Context(), ownRequest()); signal.CodeOf(err) != signal.CodeAgentPaused {
			t.Errorf("it ends with %v", err)
		}
		b.expect()
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			time.Sleep(time.Second)
			return nil, "", paused
		}
		if _, err := b.agents.Run(t.Context(), ownRequest()); signal.CodeOf(err) != signal.CodeAgentPaused {
			t.Errorf("once announced it ends with %v", err)
		}
		b.expect(startedOnly, failedEnd)
		b.submit(ownRequest())
		b.workFor(3 * time.Second)
		all := b.log.all()
		if j := all[len(all)-1].Job; j == nil || j.Error == nil || j.Error.Code != signal.AgentUnreachable || !j.Error.Retryable {
			t.Errorf("a job ends as %+v", j)
		}
		for result, want := range map[string]float64{resultRefused: 2, resultError: 1, resultLost: 0} {
			if n := testutil.ToFloat64(m.runs.WithLabelValues("own", "own", result)); n != want {
				t.Errorf("%v runs are counted as %s, want %v", n, result, want)
			}
		}
	})
}

// An agent that was changed meanwhile is not asked again; what one has answered that was removed is not recorded.
func TestAnAgentIsChangedWhileItIsAsked(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, own *fakeOwn) {
		b.log.refuse = func(c signal.Change) error {
			if c.Agent != nil && (own.agent == nil || c.Agent.Revision != own.agent.Revision) {
				return &signal.Error{Kind: signal.KindConflict, Code: signal.CodeAgentChanged, Message: "changed"}
			}
			return nil
		}
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			time.Sleep(time.Second)
			own.set(ownAgent("2"))
			return &signal.Submission{Direction: signal.Short}, "", nil
		}
		if got, err := b.agents.Run(t.Context(), ownRequest()); err != nil || got.Signal.Direction != signal.Short {
			t.Errorf("it ends with %+v, %v", got.Signal, err)
		}
		if n := len(asker.asked()); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			time.Sleep(time.Second)
			own.set(nil)
			return &signal.Submission{Direction: signal.Short}, "", nil
		}
		_, err := b.agents.Run(t.Context(), ownRequest())
		if codeOf(err) != signal.Cancelled || !strings.Contains(err.Error(), "removed") {
			t.Errorf("one that was removed: %v", err)
		}
		b.expect(startedOnly, endOfRun, startedOnly, failedEnd)
		own.set(ownAgent("3"))
		b.submit(ownRequest())
		own.set(nil)
		b.workFor(3 * time.Second)
		all := b.log.all()
		if j := all[len(all)-1].Job; j == nil || j.Error == nil || j.Error.Message != "the agent was removed" {
			t.Errorf("a job of an agent that was removed ends as %+v", j)
		}
	})
}

// A price that is older than a second by the append is taken again, and the agent is not asked again.
func TestAnAskedRunHasAFreshPrice(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		b.log.took = 2 * time.Second // of the announcement
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			time.Sleep(10 * time.Millisecond)
			return &signal.Submission{Direction: signal.Long}, "", nil
		}
		prices := 0
		b.market.series = seriesFunc(func() (market.Snapshot, error) {
			prices++
			return history(), nil
		})
		if _, err := b.agents.Run(t.Context(), ownRequest()); err != nil {
			t.Fatal(err)
		}
		if n := len(asker.asked()); n != 1 || prices != 3 {
			t.Errorf("it was asked %d times, with %d looks at prices", n, prices)
		}
	})
}

// Agents that hang do not occupy the workers of jobs, and a busy one is waited for.
func TestAskedJobsGiveTheirWorkerBack(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		asker.answer = func(ctx context.Context, _ *signal.RunRequest) (*signal.Submission, string, error) {
			<-ctx.Done()
			return nil, "", ctx.Err()
		}
		for range 20 {
			b.submit(ownRequest())
		}
		last := b.submit(request("BTC"))
		b.workFor(5 * time.Second)
		done := func(id signal.JobID) bool {
			return slices.ContainsFunc(b.log.all(), func(c signal.Change) bool { return c.Job != nil && c.Job.ID == id })
		}
		if !done(last.ID) {
			t.Error("the job of another agent waits for those that hang")
		}
		busy := 3
		asker.mu.Lock()
		asker.answer = func(context.Context, *signal.RunRequest) (*signal.Submission, string, error) {
			if busy--; busy >= 0 {
				return nil, "", tooManyRuns("busy")
			}
			return &signal.Submission{Direction: signal.Long}, "", nil
		}
		asker.mu.Unlock()
		id := b.submit(ownRequest()).ID
		b.workFor(10 * time.Second)
		if !done(id) || busy >= 0 {
			t.Error("a job does not wait for a busy agent")
		}
	})
}

// A scan asks about each asset under an id of its own, and lists those without a signal.
func TestAScanAsks(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, asker *fakeAsker, _ *fakeOwn) {
		asker.answer = func(_ context.Context, req *signal.RunRequest) (*signal.Submission, string, error) {
			switch req.Asset {
			case "ETH":
				return nil, "", nil
			case "SOL":
				return nil, "", paused
			case "XRP":
				return &signal.Submission{Direction: signal.Long, Price: 1}, "", nil
			}
			return &signal.Submission{Direction: signal.Long}, "", nil
		}
		req := ownRequest()
		req.Asset = ""
		j, err := b.agents.SubmitScan(t.Context(), req, []string{"BTC", "ETH", "SOL", "XRP"})
		if err != nil {
			t.Fatal(err)
		}
		b.workFor(3 * time.Second)
		result := string(b.log.all()[0].Job.Result)
		for _, want := range []string{`"ranked":[{"asset":"BTC"`, `"strength":null`,
			`"no_signal":[{"asset":"ETH","reason":"` + noReason + `"}]`,
			`"errors":[{"asset":"SOL","error_code":"AGENT_UNREACHABLE"},{"asset":"XRP","error_code":"AGENT_REPLY_INVALID"}]`} {
			if !strings.Contains(result, want) {
				t.Errorf("%s is not in %s", want, result)
			}
		}
		ids := asker.asked()
		slices.Sort(ids)
		if want := j.Run + "-1"; len(slices.Compact(ids)) != 4 || ids[0] != want {
			t.Errorf("the questions have the ids %v, want %s and three others", ids, want)
		}
	})
}

func TestAnAgentWithoutAnEndpointIsNotRun(t *testing.T) {
	withAsked(t, func(t *testing.T, b *bench, _ *fakeAsker, own *fakeOwn) {
		without := ownAgent("1")
		without.Endpoint = nil
		own.set(without)
		if _, err := b.agents.Run(t.Context(), ownRequest()); signal.CodeOf(err) != "not_runnable" {
			t.Errorf("it ends with %v", err)
		}
		own.set(nil)
		if _, err := b.agents.Run(t.Context(), ownRequest()); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("one that was removed: %v", err)
		}
	})
}
