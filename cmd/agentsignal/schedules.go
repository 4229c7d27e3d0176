package main

import (
	"context"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
)

// speedOf returns how many times as fast as real time the bars of an asset go by: those
// of the source that gives its prices. What nobody has given a price of, as a subject of
// content, goes by barSpeed.
func (p *process) speedOf(ctx context.Context, asset string) int64 {
	if speed, err := p.market.Speed(ctx, asset); err == nil {
		return speed
	}
	return barSpeed(p.config.Market)
}

// barSpeed returns how many times as fast as real time bars go by where no asset says it:
// market.speed is the simulated market's, all others have real time.
func barSpeed(m configs.Market) int64 {
	sources := strings.FieldsFunc(m.Source, func(c rune) bool { return c == ',' || c == ' ' })
	if slices.Contains(sources, "simulated") {
		return m.Speed
	}
	return 1
}

// scheduledAgents runs agents for schedules, which do not look at the outcomes.
type scheduledAgents struct{ *agent.Agents }

// Run implements schedule.Agents.
func (a scheduledAgents) Run(ctx context.Context, req signal.RunRequest) error {
	_, err := a.Agents.Run(ctx, req)
	return err
}

// runQuota is the rate limit of runs, which schedules and requests of an account share.
type runQuota struct{ limiter *limits.Limiter }

// TakeRun implements schedule.Quota.
func (q runQuota) TakeRun(ctx context.Context, account signal.AccountID) bool {
	return q.limiter.Take(ctx, limits.Runs, string(account)).Allowed
}

// openSignals counts signals by the catalogue, which has read the event log up to the
// question, and by their records, which have the timeframe and the risk.
type openSignals struct {
	catalogue *catalogue.Catalogue
	store     *persistence.Store
}

// openPage is how many signals are looked at before the list is asked again.
const openPage = 100

// Full implements schedule.Signals. Few signals are read: as a rule an asset has fewer
// than the schedule allows, of whatever timeframe, or no others than those of the schedule.
func (s openSignals) Full(ctx context.Context, w *signal.Schedule, asset string) (bool, error) {
	q := catalogue.Query{Account: w.Account, Agent: w.Agent, Strategy: w.Strategy, Asset: asset, Status: signal.Open, Limit: openPage}
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
	created, closed, err := s.catalogue.Find(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return s.store.SignalByID(ctx, account, id, created, closed)
}
