package http_test

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/agentsignal/agentsignal/actors/agent/asked"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// fakeHealth knows of agents that are called failing, and never answers for those called unknown.
type fakeHealth struct{}

func (fakeHealth) Health(ctx context.Context, _ signal.AccountID, id signal.AgentID) (asked.Health, error) {
	if id == "unknown" {
		<-ctx.Done()
		return asked.Health{}, ctx.Err()
	}
	if id != "failing" {
		return asked.Health{}, nil
	}
	return asked.Health{InFlight: 1, Waiting: 2, Failures: 5, PausedUntil: morning, LastErrorAt: morning,
		LastError: &signal.RunError{Code: signal.AgentTimeout, Message: "it was late"}}, nil
}

// fakeOwnAgents keeps the agents of accounts in memory.
type fakeOwnAgents struct {
	mu   sync.Mutex
	list []signal.Agent
}

func (f *fakeOwnAgents) Agents(_ context.Context, account signal.AccountID) (list []signal.Agent, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.list {
		if a.Account == account {
			list = append(list, a)
		}
	}
	return list, nil
}

func (f *fakeOwnAgents) Agent(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error) {
	return f.Change(ctx, account, id, func(*signal.Agent) error { return nil })
}

func (f *fakeOwnAgents) Known(ctx context.Context, account signal.AccountID, id signal.AgentID) (signal.Agent, error) {
	return f.Agent(ctx, account, id)
}

func (f *fakeOwnAgents) Add(_ context.Context, a signal.Agent) (signal.Agent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, old := range f.list {
		if old.Account == a.Account && old.ID == a.ID {
			return a, &signal.Error{Kind: signal.KindConflict, Code: "name_taken", Message: "taken"}
		}
	}
	a.Revision = strconv.Itoa(len(f.list))
	f.list = append(f.list, a)
	return a, nil
}

func (f *fakeOwnAgents) Change(_ context.Context, account signal.AccountID, id signal.AgentID,
	change func(*signal.Agent) error) (signal.Agent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].Account == account && f.list[i].ID == id {
			a := f.list[i]
			if err := change(&a); err != nil {
				return signal.Agent{}, err
			}
			f.list[i] = a
			return a, nil
		}
	}
	return signal.Agent{}, signal.NotFound("agent")
}

func (f *fakeOwnAgents) Remove(ctx context.Context, account signal.AccountID, id signal.AgentID) error {
	_, err := f.Change(ctx, account, id, func(a *signal.Agent) error {
		a.Account = ""
		return nil
	})
	return err
}

func (f *fakeOwnAgents) Names(_ context.Context, account signal.AccountID, view *signal.View) (
	ids []signal.AgentID, strategies []string, err error) {
	list, err := f.Agents(context.Background(), account)
	for _, a := range list {
		a, ok := view.Agent(a)
		if !ok {
			continue
		}
		ids, strategies = append(ids, a.ID), append(strategies, a.Strategies...)
	}
	return ids, strategies, err
}

// fakeIntakes has one intake of the agent mine, with every token but "wrong", beside those of fakeOwnAgents.
type fakeIntakes struct {
	*fakeOwnAgents
	notes   [][]byte
	revoked bool
	marks   []string // of topics
	reads   int      // of marks
}

var mine = signal.Agent{ID: "mine", Account: accountID, Category: signal.Trading, Strategies: []string{"cross", "other"}}

const intakeID = signal.IntakeID("itk_01M7YQ1WTVKN9DZNWV9NV456V1")

func (f *fakeIntakes) AddIntake(ctx context.Context, account signal.AccountID, id signal.AgentID, in signal.Intake) error {
	_, err := f.Change(ctx, account, id, func(a *signal.Agent) error {
		a.Intakes = append(a.Intakes, in)
		return nil
	})
	return err
}

func (f *fakeIntakes) RemoveIntake(
	ctx context.Context, account signal.AccountID, id signal.AgentID, intake signal.IntakeID,
) error {
	_, err := f.Change(ctx, account, id, func(a *signal.Agent) error {
		a.Intakes = slices.DeleteFunc(a.Intakes, func(in signal.Intake) bool { return in.ID == intake })
		return nil
	})
	return err
}

func (*fakeIntakes) OfToken(_ context.Context, digest string) (signal.Agent, signal.Intake, error) {
	if digest == credential.DigestOf("wrong").String() {
		return signal.Agent{}, signal.Intake{}, signal.NotFound("intake")
	}
	return mine, signal.Intake{ID: intakeID, Digest: digest}, nil
}

func (f *fakeIntakes) OfIntake(context.Context, signal.AccountID, signal.AgentID, signal.IntakeID) (
	signal.Agent, signal.Intake, error) {
	if f.revoked {
		return signal.Agent{}, signal.Intake{}, signal.NotFound("intake")
	}
	return f.OfToken(context.Background(), "")
}

func (f *fakeIntakes) Marks(_ context.Context, _ signal.AccountID, topics []string) ([]signal.AlertTopic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	list := make([]signal.AlertTopic, len(topics))
	for i, name := range topics {
		list[i].Name = name
	}
	for i := range min(len(list), len(f.marks)) {
		list[i].Mark = f.marks[i]
	}
	return list, nil
}

func (f *fakeIntakes) NoteRequest(_ context.Context, _ signal.AccountID, _ signal.IntakeID, request []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, request)
	return nil
}

func (f *fakeIntakes) Requests(context.Context, signal.AccountID, signal.IntakeID) ([]signal.IntakeRequest, error) {
	return nil, nil
}
