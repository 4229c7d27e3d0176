package asked

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// answer is the behaviour of an endpoint.
type answer func(ctx context.Context) sender.Result

// says answers 200 with a body.
func says(body string) answer {
	return func(context.Context) sender.Result {
		return sender.Result{Status: 200, Class: sender.ClassSuccess, Body: body}
	}
}

// fails answers 500.
func fails(context.Context) sender.Result {
	return sender.Result{Status: 500, Class: sender.ClassServerError, Error: "status 500"}
}

// hangs does not answer.
func hangs(ctx context.Context) sender.Result {
	<-ctx.Done()
	return sender.Result{Error: "cancelled"}
}

// after delays an answer, unless the question is given up.
func after(d time.Duration, a answer) answer {
	return func(ctx context.Context) sender.Result {
		select {
		case <-time.After(d):
			r := a(ctx)
			r.Duration = d
			return r
		case <-ctx.Done():
			return sender.Result{Error: "cancelled"}
		}
	}
}

// fakeSender answers as scripted, by URL.
type fakeSender struct {
	mu      sync.Mutex
	answers map[string]answer // default: a submission
	sent    []sender.Request
	slow    []bool // of each in sent
}

func (f *fakeSender) Post(ctx context.Context, _ signal.AccountID, slow bool, r sender.Request) (sender.Result, error) {
	f.mu.Lock()
	f.sent, f.slow = append(f.sent, r), append(f.slow, slow)
	a := f.answers[r.To.URL]
	f.mu.Unlock()
	if a == nil {
		a = says(`{"direction":"long"}`)
	}
	return a(ctx), nil
}

// script sets the answers of an agent's endpoint from now on.
func (f *fakeSender) script(agent *signal.Agent, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[agent.Endpoint.URL] = a
}

// count returns how many questions were sent to an agent.
func (f *fakeSender) count(agent *signal.Agent) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sent {
		if f.sent[i].To.URL == agent.Endpoint.URL {
			n++
		}
	}
	return n
}

// bench is an Asked with a fakeSender in a bubble.
type bench struct {
	*Asked
	t        *testing.T
	sender   *fakeSender
	registry *prometheus.Registry
}

// withBench calls f with a bench inside a bubble.
func withBench(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, sender: &fakeSender{answers: map[string]answer{}}, registry: prometheus.NewRegistry()}
		sys := engine.NewSystem(engine.Options{Metrics: engine.NewMetrics(b.registry)})
		b.Asked = New(sys, Options{Sender: b.sender, Read: readDirection, Metrics: NewMetrics(b.registry)})
		f(t, b)
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// readDirection reads a submission of a direction alone.
func readDirection(body []byte, _ *signal.RunRequest) (*signal.Submission, error) {
	var m struct{ Direction signal.Direction }
	if err := json.Unmarshal(body, &m); err != nil || m.Direction != signal.Long && m.Direction != signal.Short {
		return nil, errors.New("direction must be long or short")
	}
	return &signal.Submission{Direction: m.Direction}, nil
}

// newAgentOf returns an agent of an account with an endpoint.
func newAgentOf(account signal.AccountID, id signal.AgentID, url string) *signal.Agent {
	return &signal.Agent{ID: id, Account: account, Endpoint: &signal.Endpoint{URL: url, Secret: secret}}
}

const secret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="

// snapshot has so many bars of an hour.
func snapshot(bars int) *market.Snapshot {
	s := &market.Snapshot{Last: marketdata.Tick{Price: 101.25}}
	for i := range int64(bars) {
		s.Bars = append(s.Bars, marketdata.Bar{OpenTime: i * 3_600_000, CloseTime: (i + 1) * 3_600_000,
			Open: 100, High: 102.5, Low: 99, Close: 101, Volume: float64(i)})
	}
	return s
}

func requestOf(agent *signal.Agent) *signal.RunRequest {
	return &signal.RunRequest{Account: agent.Account, Agent: agent.ID, Asset: "BTC", Strategy: "cross",
		Timeframe: signal.H1, Risk: signal.MediumRisk, Own: agent, Parameters: signal.Parameters{Keywords: []string{"a \"b\""}}}
}

// ask asks agent with a time limit, and returns the code of the error.
func (b *bench) ask(agent *signal.Agent, limit time.Duration) (code string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	s, _, err := b.Ask(ctx, signal.NewRunID(), requestOf(agent), snapshot(3))
	if (s == nil) != (err != nil) {
		b.t.Errorf("the submission is %v, the error %v", s, err)
	}
	return codeOf(err)
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*signal.RunError](err); ok {
		return string(e.Code)
	}
	if err != nil && signal.CodeOf(err) == "" {
		return err.Error()
	}
	return signal.CodeOf(err)
}

// health returns the health of agent when all is quiet.
func (b *bench) health(agent *signal.Agent) Health {
	b.t.Helper()
	synctest.Wait()
	h, err := b.Health(b.t.Context(), agent.Account, agent.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// metric returns the value of a metric whose label has the value, if it has one.
func (b *bench) metric(name, label string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	b.t.Fatalf("there is no metric %s of %s", name, label)
	return 0
}
