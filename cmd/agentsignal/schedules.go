package main

import (
	"context"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
)

// barSpeed returns how many times as fast as real time the bars go by for which
// schedules wait: real markets have their own time, whatever market.speed is.
func barSpeed(m configs.Market) int64 {
	sources := strings.FieldsFunc(m.Source, func(c rune) bool { return c == ',' || c == ' ' })
	if slices.Contains(sources, "simulated") || slices.Contains(sources, "stream") {
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

// openSignals counts signals by the catalogue, which has read the event log up to the
// question.
type openSignals struct{ *catalogue.Catalogue }

// CountOpen implements schedule.Signals.
func (s openSignals) CountOpen(ctx context.Context, account signal.AccountID, id signal.AgentID, strategy, asset string) (int, error) {
	_, n, err := s.List(ctx, catalogue.Query{Account: account, Agent: id, Strategy: strategy, Asset: asset, Status: signal.Open, Limit: 1})
	return n, err
}
