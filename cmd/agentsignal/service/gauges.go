package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
)

const gaugesEvery = 15 * time.Second

// gauges are the metrics of the data in Redis: its streams, pending deliveries and lags.
type gauges struct {
	log        *slog.Logger
	store      *persistence.Store
	webhooks   *deliveries.Stats
	attempts   *webhook.Metrics
	partitions *partitionMetrics
}

// run updates the gauges until ctx ends.
func (g *gauges) run(ctx context.Context) error {
	streams := &dataGauges{read: g.store.Gauges.Update, reset: g.store.Gauges.Reset}
	webhooks := &dataGauges{read: g.observeWebhooks, reset: g.attempts.Reset}
	update := func() {
		err := errors.Join(streams.update(ctx), webhooks.update(ctx), g.partitions.update(ctx, g.store.Logs.Positions))
		if err != nil && ctx.Err() == nil {
			g.log.Debug("the gauges were not updated", "err", err)
		}
	}
	panics.Guard(g.log, panics.Background, update) // Redis may be full already
	return every(ctx, g.log, gaugesEvery, update)
}

// observeWebhooks updates the gauges of webhooks and pending deliveries.
func (g *gauges) observeWebhooks(ctx context.Context) error {
	stats, err := g.webhooks.WebhookStats(ctx)
	if err == nil {
		g.attempts.Observe(stats, g.store.Client.Now())
	}
	return err
}

// maxFailedUpdates is after how many failed updates the gauges of the data in Redis have no values any more. Alerts take
// the maximum over all processes, in which the last value of one that has lost Redis would stay.
const maxFailedUpdates = 4

// dataGauges are gauges of one kind of data in Redis.
type dataGauges struct {
	read   func(context.Context) error
	reset  func() // removes their values
	failed int    // updates since the last one that succeeded
}

func (g *dataGauges) update(ctx context.Context) error {
	err := g.read(ctx)
	if err == nil {
		g.failed = 0
		return nil
	}
	if g.failed++; g.failed == maxFailedUpdates {
		g.reset()
	}
	return err
}
