package service

import (
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/agent/asked"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/content"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/outcomes"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/persistence/agents"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	outcomestore "github.com/agentsignal/agentsignal/persistence/outcomes"
)

const (
	jobMargin = 15 * time.Second // for a sign of life of a job after the timeout of runs
	runGrace  = 5 * time.Second  // for runs, of shutdownTimeout
)

// runs is what makes signals, the lists of these, and what follows the open ones.
type runs struct {
	catalogue *catalogue.Catalogue
	outcomes  *outcomes.Service
	skills    *scorecard.Skills // of accounts' agents
	agents    *agent.Agents
	lifecycle *lifecycle.Node
}

// asking is the agents of accounts, and what asks them.
type asking struct {
	ownAgents *agents.Store
	asked     *asked.Asked
}

func newAsking(e environment, s *storage, system *engine.System, secrets *keyring.Ring, by asked.Sender) *asking {
	return &asking{agents.New(s.store.Client, s.events, secrets), asked.New(system, asked.Options{
		Sender:  by,
		Read:    signalhttp.ReadReply,
		Timeout: time.Duration(e.config.Runs.Timeout),
		Now:     s.store.Client.Now,
		Metrics: asked.NewMetrics(e.registry),
	})}
}

func newRuns(
	e environment, s *storage, node string, system *engine.System, m *market.Market, w *weather.Service, own *asking,
) (*runs, error) {
	c := e.config
	texts, err := contentWriter(c, e.log)
	if err != nil {
		return nil, err
	}
	r := &runs{catalogue: newCatalogue(e, s, m)}
	r.outcomes = outcomes.New(outcomes.Options{
		Store: outcomestore.New(s.store.Client),
		Keep:  outcomestore.MaxStored,
		Now:   s.store.Client.Now,
		Log:   e.log,
	})
	r.skills = scorecard.NewSkills(r.catalogue, s.store.Signals, scorecard.SkillOptions{
		Retention: time.Duration(c.Signals.Retention),
		Now:       s.store.Client.Now,
	})
	r.agents = agent.New(system, agent.Options{
		Log:      s.events,
		Market:   m,
		History:  m,
		Outcomes: r.outcomes,
		Skills:   r.skills,
		Content:  texts,
		Weather:  w,
		Own:      own.ownAgents,
		Asker:    own.asked,
		Jobs: jobs.New(s.store.Client, node, jobs.Options{
			Idle:      time.Duration(c.Runs.Timeout) + jobMargin,
			Reclaimed: s.store.Gauges.CountReclaimed,
			Log:       e.log,
		}),
		Cost:          CostsOf(c.Costs).Of,
		Slippage:      c.Costs.Slippage,
		Disabled:      agentIDs(c.Agents.Disabled),
		Timeout:       time.Duration(c.Runs.Timeout),
		MaxConcurrent: c.Runs.MaxConcurrent,
		MaxQueued:     c.Runs.MaxQueued,
		MaxOpen:       c.Signals.MaxOpen,
		Open:          r.catalogue.Open,
		JobRetention:  time.Duration(c.Runs.JobRetention),
		Now:           s.store.Client.Now,
		Slog:          e.log,
		Metrics:       agent.NewMetrics(e.registry),
	})
	e.stops.Add("runs", within(runGrace, r.agents.Drain))
	r.lifecycle = lifecycle.New(s.store.Signals, s.events, m.Alerts, lifecycle.Options{
		Now:       s.store.Client.Now,
		Log:       e.log,
		Metrics:   lifecycle.NewMetrics(e.registry),
		Forecasts: forecasts{w},
	})
	return r, nil
}

// newCatalogue returns the lists of signals.
func newCatalogue(e environment, s *storage, m *market.Market) *catalogue.Catalogue {
	c := catalogue.New(s.tail, s.store.Signals, s.store.Client.Partitions(), catalogue.Options{
		Name:      m.Assets.Name,
		Suggest:   m.Assets.Suggest,
		Retention: time.Duration(e.config.Signals.Retention),
		MaxOpen:   e.config.Signals.MaxOpen,
		Follow:    s.tail.For(eventlog.Lists).Use,
		Now:       s.store.Client.Now,
		Log:       e.log,
	})
	e.stops.Add("lists", c.Close)
	return c
}

// contentWriter returns the writer of the content agent. Its endpoint gets less time than a
// run, so that the built-in writer can still take over.
func contentWriter(c configs.Config, log *slog.Logger) (*content.Writer, error) {
	const maxTimeout = 20 * time.Second
	return content.New(content.Options{
		Chat: content.ChatOptions{
			URL:     c.Content.ChatURL,
			Key:     string(c.Content.ChatKey),
			Model:   c.Content.ChatModel,
			Timeout: min(maxTimeout, time.Duration(c.Runs.Timeout)*2/3),
		},
		Log: log,
	})
}

func agentIDs(names []string) []signal.AgentID {
	var ids []signal.AgentID
	for _, n := range names {
		ids = append(ids, signal.AgentID(n))
	}
	return ids
}
