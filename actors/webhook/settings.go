package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// records reads and changes the records of webhooks.
type records interface {
	Webhook(ctx context.Context, account signal.AccountID, id signal.WebhookID) (delivery.Webhook, error)
	// ChangeWebhook stores a record, unless it was changed since the revision of w.
	ChangeWebhook(ctx context.Context, w delivery.Webhook, clearHealth bool) (delivery.Webhook, error)
}

// orders reads the waits of webhooks.
type orders interface {
	SignalWaits(ctx context.Context, partition int, webhook signal.WebhookID) ([]delivery.Wait, error)
}

// Messages of an endpoint to itself about its settings.
type (
	loaded struct {
		record delivery.Webhook
		waits  []delivery.Wait // read with the first one
		err    error
	}
	loadDue struct{}
)

// sealedRetry is the pause before another try to open a secret that no key opens.
const sealedRetry = time.Minute

// settings are the record of an endpoint's webhook.
type settings struct {
	o       *owned
	account signal.AccountID
	id      signal.WebhookID
	log     *slog.Logger

	record  delivery.Webhook
	known   bool // the record was read
	changed bool // the record was changed since it was read
	loading bool
	again   bool // it must be read once more
	sealed  bool // no key opens its secret: nothing can be sent
	failed  backoff.Backoff
	timer   engine.Timer // of loadIn
}

// load reads the record.
func (s *settings) load(c engine.Context) {
	if s.loading {
		s.again = true
		return
	}
	s.loading, s.again = true, false
	o, account, id, first := s.o, s.account, s.id, !s.known
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		w, err := o.store.Webhook(ctx, account, id)
		var waits []delivery.Wait
		if err == nil && first {
			waits, err = o.store.SignalWaits(ctx, o.Partition, id)
		}
		return loaded{w, waits, err}
	})
}

// loadIn reads the record later. It replaces an earlier call.
func (s *settings) loadIn(c engine.Context, d time.Duration) {
	s.timer.Stop()
	s.timer = c.After(d, loadDue{})
}

// take takes a record that was read, unless it must be read again. It reports whether it did.
func (s *settings) take(c engine.Context, m *loaded) bool {
	s.loading = false
	if m.err != nil {
		s.failed.Log(s.log, "webhook is not readable", "err", m.err)
		s.loadIn(c, s.failed.Next())
		return false
	}
	s.failed.Reset()
	if s.again {
		s.load(c)
		return false
	}
	w := &m.record
	// A manual change that has just disabled the webhook.
	if s.changed && w.DisabledReason == delivery.DisabledManual &&
		w.UpdatedAt.Sub(w.DisabledAt) < time.Second && !w.DisabledAt.Equal(s.record.DisabledAt) {
		s.o.options.Metrics.disabled(delivery.DisabledManual)
	}
	s.record, s.known, s.changed = *w, true, false
	return true
}

// disabled reports whether nothing is sent except tests, once.
func (s *settings) disabled() bool { return s.record.Status == delivery.WebhookDisabled }

// open opens the secrets of the record, so that requests can be signed. It returns nil if no key opens
// them, and tries again later.
func (s *settings) open(c engine.Context) *target {
	t, err := openTarget(s.o.keys, &s.record, s.o.now())
	if s.sealed = err != nil; s.sealed {
		s.log.Error("secret of a webhook cannot be opened", "err", err)
		s.loadIn(c, sealedRetry)
		return nil
	}
	if outdated(s.o.keys, &s.record, s.o.now()) {
		stored, w, log := maintenance{s.o}, s.record, s.log
		c.Go(func(ctx context.Context) any {
			ctx, cancel := context.WithTimeout(ctx, storeTimeout)
			defer cancel()
			if err := stored.reseal(ctx, w); err != nil {
				log.Warn("secret is not sealed with the newest key", "err", err)
			}
			return nil // the new record is loaded like any other change
		})
	}
	return t
}
