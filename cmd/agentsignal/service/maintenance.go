package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	clockEvery  = 10 * time.Second
	trimEvery   = time.Minute
	settleEvery = 5 * time.Second
)

// maintenance is the periodic work of a node for itself.
type maintenance struct {
	log        *slog.Logger
	client     *redisclient.Client
	catalogue  *catalogue.Catalogue
	scorecards *scorecard.Scorecards
	skills     *scorecard.Skills
	hub        *dashboard.Hub
}

// syncClock synchronizes this node's clock with that of Redis.
func (m *maintenance) syncClock(ctx context.Context) error {
	return every(ctx, m.log, clockEvery, func() {
		if err := m.client.SyncClock(ctx); err != nil && ctx.Err() == nil && !logRefusal(m.log, err) {
			m.log.Debug("the clock was not synchronized", "err", err)
		}
	})
}

// trimMemory frees the memory of what this node served and serves no longer, and of signals past
// their retention.
func (m *maintenance) trimMemory(ctx context.Context) error {
	return every(ctx, m.log, trimEvery, func() {
		m.catalogue.Trim()
		m.scorecards.Trim()
		m.skills.Trim()
		m.hub.Trim()
	})
}

// returnMemory gives memory back to the system after a burst of connections.
func (m *maintenance) returnMemory(ctx context.Context) error {
	return every(ctx, m.log, settleEvery, func() { m.hub.Settle() })
}
