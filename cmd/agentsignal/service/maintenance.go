package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/agentsignal/agentsignal/actors/panics"
)

// syncClock synchronizes this node's clock with that of Redis.
func (p *process) syncClock(ctx context.Context) error {
	return every(ctx, p.log, clockEvery, func() {
		if err := p.store.Client.SyncClock(ctx); err != nil && ctx.Err() == nil && !p.reportRefusal(err) {
			p.log.Debug("the clock was not synchronized", "err", err)
		}
	})
}

// maxFailedUpdates is after how many failed updates the gauges of the data in Redis have no values any more. Alerts take
// the maximum over all processes, in which the last value of one that has lost Redis would stay.
const maxFailedUpdates = 4

// dataGauges are gauges of the data in Redis.
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

// updateGauges updates the metrics of Redis' streams, of pending deliveries and of lags.
func (p *process) updateGauges(ctx context.Context) error {
	streams := &dataGauges{read: p.store.UpdateGauges, reset: p.store.ResetGauges}
	webhooks := &dataGauges{read: p.observeWebhooks, reset: p.attempts.Reset}
	update := func() {
		err := errors.Join(streams.update(ctx), webhooks.update(ctx), p.holdings.update(ctx))
		if err != nil && ctx.Err() == nil {
			p.log.Debug("the gauges were not updated", "err", err)
		}
	}
	panics.Guard(p.log, panics.Background, update) // Redis may be full already
	return every(ctx, p.log, gaugesEvery, update)
}

// trimMemory frees the memory of what this node served and serves no longer, and of signals past
// their retention.
func (p *process) trimMemory(ctx context.Context) error {
	return every(ctx, p.log, trimEvery, func() {
		p.catalogue.Trim()
		p.scorecards.Trim()
		p.hub.Trim()
	})
}

// returnMemory gives memory back to the system after a burst of connections.
func (p *process) returnMemory(ctx context.Context) error {
	return every(ctx, p.log, settleEvery, func() { p.hub.Settle() })
}

// keepHeapSmall keeps the heap small while the process is quiet.
func (p *process) keepHeapSmall(ctx context.Context) error {
	c := newCollector()
	defer c.end()
	return every(ctx, p.log, collectEvery, c.settle)
}

// reloadSettings reloads the certificate, log level and rate limits on request. Settings that
// are not valid change nothing.
func (p *process) reloadSettings(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.options.Reload:
		}
		p.notifySystemd(daemon.SdNotifyReloading)
		err := panics.ErrPanicked
		panics.Guard(p.log, panics.Background, func() { err = p.applySettings() })
		p.notifySystemd(daemon.SdNotifyReady)
		if err != nil {
			p.log.Error("settings were not reloaded: the old ones stay in force", "err", err)
			continue
		}
		p.log.Info("settings were reloaded: certificate, rate limits and log level; others change at the next start")
	}
}

// applySettings reads the settings and applies those that can change at run time.
func (p *process) applySettings() error {
	c, err := p.options.settings.Load()
	if err != nil {
		return err
	}
	quotas, err := quotasOf(c.RateLimit)
	if err != nil {
		return err
	}
	if err := p.certificate.load(c.TLS); err != nil {
		return err
	}
	p.limiter.SetQuotas(quotas)
	setLevel(p.options.level, c.Log.Level)
	return nil
}

// every calls f each d until ctx ends. A panic of f is logged, and f is called again.
func every(ctx context.Context, log *slog.Logger, d time.Duration, f func()) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			panics.Guard(log, panics.Background, f)
		}
	}
}
