package service

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence/credentials"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

// eventLog adapts the event log to dashboard.EventLog.
type eventLog struct {
	*eventlog.Store
	tail *eventlog.Tail
}

// Wait implements dashboard.EventLog.
func (l eventLog) Wait(ctx context.Context, partition int, p signal.Position) error {
	return l.tail.Wait(ctx, partition, p)
}

// lastPrices adapts the market to dashboard.Options.Prices.
type lastPrices struct{ market *market.Market }

func (q lastPrices) read(ctx context.Context) ([]dashboard.LastPrice, error) {
	assets, err := q.market.Prices(ctx)
	if err != nil {
		return nil, err
	}
	var all []dashboard.LastPrice
	for i := range assets {
		if a := &assets[i]; !a.LastAt.IsZero() {
			all = append(all, dashboard.LastPrice{Asset: a.Symbol, Source: a.Source, Price: a.Last, At: a.LastAt})
		}
	}
	return all, nil
}

// partitionStore has the records of a partition: its logs, lease and due runs, and the deleted
// accounts, whose records are of every kind.
type partitionStore struct {
	*signals.Store
	partition.Eraser
}

// scheduledAgents runs agents for schedules, which ignore the outcomes.
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
	created, closed, err := s.catalogue.Find(ctx, account, id)
	if err != nil {
		return nil, err
	}
	return s.records.SignalByID(ctx, account, id, created, closed)
}

// forecasts adapts the weather to lifecycle.Forecasts.
type forecasts struct{ weather *weather.Service }

// Turned implements lifecycle.Forecasts.
func (f forecasts) Turned(
	strategy string, d signal.Direction, o *signal.Outlook,
) (likelihood, weight float64, ok bool) {
	return f.weather.Likelihood(weather.Question{Strategy: strategy, Commodity: o.Commodity, Region: o.Region}, d)
}

// addresses has the email addresses of accounts.
type addresses struct{ accounts *credentials.Store }

// Email implements webhook.Addresses.
func (a addresses) Email(ctx context.Context, id signal.AccountID) (string, error) {
	account, _, err := a.accounts.AccountByID(ctx, id)
	return account.Email, err
}
