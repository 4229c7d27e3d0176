package service

import (
	"context"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/http/limits"
)

// reloader reloads the settings that can change at run time: certificate, log level and rate limits.
type reloader struct {
	settings    *Settings
	requests    <-chan os.Signal
	certificate *certificate
	limiter     *limits.Limiter
	level       *slog.LevelVar
	log         *slog.Logger
	systemd     notifier
}

// run reloads the settings on request until ctx ends. Settings that are not valid change nothing.
func (r *reloader) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.requests:
		}
		r.systemd.notify(daemon.SdNotifyReloading)
		err := panics.ErrPanicked
		panics.Guard(r.log, panics.Background, func() { err = r.apply() })
		r.systemd.notify(daemon.SdNotifyReady)
		if err != nil {
			r.log.Error("settings were not reloaded: the old ones stay in force", "err", err)
			continue
		}
		r.log.Info("settings were reloaded: certificate, rate limits and log level; others change at the next start")
	}
}

func (r *reloader) apply() error {
	c, err := r.settings.Load()
	if err != nil {
		return err
	}
	quotas, err := quotasOf(c.RateLimit)
	if err != nil {
		return err
	}
	if err := r.certificate.load(c.TLS); err != nil {
		return err
	}
	r.limiter.SetQuotas(quotas)
	setLevel(r.level, c.Log.Level)
	return nil
}
