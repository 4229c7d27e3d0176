package service

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
)

// buildWebhooks builds the store of webhooks and the delivery to them.
func (p *process) buildWebhooks(context.Context) error {
	c := p.config.Webhooks
	keys, err := p.keysOf("security.encryption_keys", p.config.Security.EncryptionKeys, encryptionKeyFile)
	if err != nil {
		return err
	}
	if p.secrets, err = keyring.New(keys); err != nil {
		return err
	}
	networks, err := parsePrefixes("webhooks.allowed_networks", c.AllowedNetworks)
	if err != nil {
		return err
	}
	mailer, err := newMailer(p.config.Email)
	if err != nil {
		return fmt.Errorf("email.smtp_url: %w", err)
	}
	p.webhooks = deliveries.New(p.store.Logs, p.events)
	p.guard = guard.New(guard.Options{
		AllowedNetworks: networks,
		AllowHTTP:       c.AllowHTTP,
	})
	client := sender.New(sender.Options{
		Timeout:        time.Duration(c.Timeout),
		ConnectTimeout: time.Duration(c.ConnectTimeout),
		Guard:          p.guard,
		UserAgent:      "agentsignal/" + Version,
		Log:            p.log,
		Now:            p.store.Client.Now,
	})
	p.undo.Add("connections to endpoints", func(context.Context) error {
		client.Close()
		return nil
	})
	p.attempts = webhook.NewMetrics(p.registry)
	p.deliverer = webhook.New(p.webhooks, client, p.secrets, webhook.Options{
		Name: p.market.Name,
		Schedule: webhook.Schedule{
			Retries: durations(c.RetrySchedule),
			Jitter:  c.Jitter,
		},
		Health: webhook.HealthRules{
			DisableAfter: time.Duration(c.DisableAfter),
			WarnAfter:    durations(c.WarnAfter),
		},
		Concurrency:        c.Concurrency,
		HostConcurrency:    c.HostConcurrency,
		AccountConcurrency: c.AccountConcurrency,
		InFlight:           c.InFlight,
		Retention:          time.Duration(c.Retention),
		Keep:               c.Keep,
		KeepBytes:          int64(c.KeepBytes),
		MaxPending:         c.MaxPending,
		OrderWait:          orderWait(c.OrderWait),
		Mailer:             mailer,
		Addresses:          addresses{p.store.Credentials},
		Now:                p.store.Client.Now,
		Log:                p.log,
		Metrics:            p.attempts,
	})
	return nil
}

// orderWait returns the option for the setting, whose 0 means not to wait.
func orderWait(d configs.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return time.Duration(d)
}

// newMailer returns the configured mailer, or nil.
func newMailer(c configs.Email) (webhook.Mailer, error) {
	if c.SMTPURL == "" {
		return nil, nil
	}
	return mail.NewSMTP(string(c.SMTPURL), c.From, mail.Options{})
}

// observeWebhooks updates the gauges of webhooks and pending deliveries.
func (p *process) observeWebhooks(ctx context.Context) error {
	stats, err := p.webhooks.WebhookStats(ctx)
	if err == nil {
		p.attempts.Observe(stats, p.store.Client.Now())
	}
	return err
}

func durations(list []configs.Duration) []time.Duration {
	d := make([]time.Duration, len(list))
	for i := range list {
		d[i] = time.Duration(list[i])
	}
	return d
}
