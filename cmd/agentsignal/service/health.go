package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// redisFault returns the error of /readyz for an error of Redis.
func redisFault(err error) error {
	reason, _ := redisclient.Refusal(err)
	return &signal.Error{Kind: signal.KindUnavailable, Message: cmp.Or(reason, "redis cannot be reached"), Cause: err}
}

// health returns the checks of /healthz and /readyz.
func (p *process) health() signalhttp.Health {
	return signalhttp.Health{
		Alive: p.system.Alive,
		Redis: func(ctx context.Context) error {
			if err := p.store.Client.Ready(ctx); err != nil {
				return redisFault(err)
			}
			return nil
		},
		Streams: func(context.Context) error {
			if !p.tail.Attached() {
				return errors.New("the tail is not attached")
			}
			return nil
		},
		Actors: func(ctx context.Context) error {
			if p.joined.Load() == nil {
				return errors.New("the node has not joined the installation")
			}
			return p.system.Alive(ctx)
		},
		Warnings: p.warnings,
	}
}

// warnings returns why data may be lost, and that prices are simulated although this was not asked for.
func (p *process) warnings() []string {
	var warnings []string
	if p.config.Market.SourceByDefault {
		warnings = append(warnings, "Prices are simulated, as market.source is not set.")
	}
	if p.embedded != nil && !p.embedded.Durable() {
		warnings = append(warnings, "No Redis server is installed: data are kept in this process, "+
			"and nothing survives a restart.")
	}
	if c := p.store.Client; c.AcceptsWithoutReplicas() && c.Degraded() {
		warnings = append(warnings, "Replicas of Redis are missing: changes are acknowledged without them, "+
			"and a failover may lose these.")
	}
	if risks := p.risks.Load(); risks != nil {
		warnings = append(warnings, *risks...)
	}
	return warnings
}

// watchRedis looks for what puts the data at risk, and logs when it begins and ends.
func (p *process) watchRedis(ctx context.Context) error {
	var logged []string
	look := func() { logged = p.lookForRisks(ctx, logged) }
	panics.Guard(p.log, panics.Background, look)
	return every(ctx, p.log, risksEvery, look)
}

// shortenedLogs returns the partitions whose signal logs were shortened, or those of the last look if
// this one fails.
func (p *process) shortenedLogs(ctx context.Context) ([]int, error) {
	list, err := p.store.Leaves.Shortened(ctx)
	if err == nil {
		p.shortened.Store(&list)
	} else if last := p.shortened.Load(); last != nil {
		list = *last
	}
	return list, err
}

// lookForRisks sets the risks of Redis and logs what differs from what is logged. It returns what
// is logged now: also that Redis refuses changes, of which /readyz warns by itself.
func (p *process) lookForRisks(ctx context.Context, logged []string) []string {
	risks, err := p.store.Client.Risks(ctx)
	if err != nil {
		return logged // others report that Redis does not answer
	}
	shortened, err := p.shortenedLogs(ctx)
	if err != nil {
		p.log.Warn("signal logs cannot be compared with the record", "component", "persistence", "err", err)
	}
	for _, n := range shortened {
		risks = append(risks, fmt.Sprintf("The signal log of partition %d was deleted or replaced: signals that the record "+
			"has are missing in lists. Restore Redis from a backup; \"agentsignal audit\" counts what is missing.", n))
	}
	p.risks.Store(&risks)
	found := slices.Clip(risks)
	if reason, _ := redisclient.Refusal(p.store.Client.Ready(ctx)); reason != "" {
		found = append(found, "Redis refuses changes: "+reason+".")
	}
	for _, risk := range found {
		if !slices.Contains(logged, risk) {
			p.log.Warn("data are at risk", "component", "persistence", "reason", risk)
		}
	}
	for _, risk := range logged {
		if !slices.Contains(found, risk) {
			p.log.Info("data are no longer at risk", "component", "persistence", "reason", risk)
		}
	}
	return found
}
