package service

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/schedule"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/schedules"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// planning is the schedules and what makes their runs.
type planning struct {
	schedules *schedules.Store
	scheduler *schedule.Node
}

func newPlanning(
	e environment, s *storage, r *runs, l *limits.Limiter, speed func(context.Context, string) int64,
) *planning {
	list := schedules.New(s.store.Client, s.events)
	return &planning{list, schedule.New(list, scheduledAgents{r.agents}, openSignals{r.catalogue, s.store.Signals},
		schedule.Options{
			Speed:   speed,
			Quota:   runQuota{l},
			Now:     s.store.Client.Now,
			Log:     e.log,
			Metrics: schedule.NewMetrics(e.registry),
		})}
}

// newScorecards returns the statistics of signals.
func newScorecards(e environment, s *storage, m *market.Market) *scorecard.Scorecards {
	return scorecard.New(s.store.Signals, scorecard.Options{
		Retention: time.Duration(e.config.Signals.Retention),
		Follow: func(ctx context.Context, account signal.AccountID) error {
			return s.tail.For(eventlog.Lists).Use(ctx, s.store.Client.Partition(account))
		},
		Now:  s.store.Client.Now,
		Name: m.Assets.Name,
		Cost: costOf(e.config.Costs),
	})
}

// scheduledAgents runs agents for schedules, which ignore the outcomes. That an agent has no signal is no failure.
type scheduledAgents struct{ *agent.Agents }

// Run implements schedule.Agents.
func (a scheduledAgents) Run(ctx context.Context, req signal.RunRequest) error {
	_, err := a.Agents.Run(ctx, req)
	if signal.CodeOf(err) == agent.CodeNoSignal {
		return nil
	}
	return err
}

// openSignals counts the open signals of schedules, by the catalogue, which has read the
// event log up to the call, and by the records, which have the timeframe and the risk.
type openSignals struct {
	catalogue *catalogue.Catalogue
	records   *signals.Store
}

// openPage is the number of signals that are read at a time.
const openPage = 100

// Full implements schedule.Signals. It reads few records: an asset usually has fewer open
// signals than the schedule allows, or only those of the schedule.
func (s openSignals) Full(ctx context.Context, w *signal.Schedule, asset string) (bool, error) {
	q := catalogue.Query{Account: w.Account, Agent: w.Agent, Strategy: w.Strategy, Asset: asset, Status: signal.Open,
		Limit: openPage}
	for count := 0; ; q.Offset += openPage {
		list, total, err := s.catalogue.List(ctx, q)
		if err != nil || total < w.MaxOpen {
			return false, err
		}
		for i := range list {
			x, err := s.signal(ctx, w.Account, list[i].ID)
			if signal.KindOf(err) == signal.KindNotFound {
				continue // erased meanwhile
			}
			if err != nil {
				return false, err
			}
			if x.Status() == signal.Open && w.Makes(x) {
				count++
			}
			if count == w.MaxOpen {
				return true, nil
			}
		}
		if q.Offset+len(list) >= total {
			return false, nil
		}
	}
}

func (s openSignals) signal(ctx context.Context, account signal.AccountID, id signal.SignalID) (*signal.Signal, error) {
	created, closed, err := s.catalogue.Find(ctx, account, nil, id)
	if err != nil {
		return nil, err
	}
	return s.records.SignalByID(ctx, account, id, created, closed)
}
