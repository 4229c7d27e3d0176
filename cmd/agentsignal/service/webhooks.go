package service

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/credentials"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// webhookDelivery is the webhooks, and what delivers to them.
type webhookDelivery struct {
	webhooks  *deliveries.Store
	secrets   *keyring.Ring
	guard     *guard.Guard
	attempts  *webhook.Metrics
	deliverer *webhook.Node
}

// newWebhookDelivery builds the store of webhooks and the delivery to them. name returns the name of an asset.
func newWebhookDelivery(
	e environment, s *storage, secrets *keyring.Ring, name func(string) string,
) (*webhookDelivery, error) {
	c := e.config.Webhooks
	networks, err := parsePrefixes("webhooks.allowed_networks", c.AllowedNetworks)
	if err != nil {
		return nil, err
	}
	mailer, err := newMailer(e.config.Email)
	if err != nil {
		return nil, fmt.Errorf("email.smtp_url: %w", err)
	}
	d := &webhookDelivery{
		webhooks: deliveries.New(s.store.Client, s.events),
		secrets:  secrets,
		guard:    guard.New(guard.Options{AllowedNetworks: networks, AllowHTTP: c.AllowHTTP}),
		attempts: webhook.NewMetrics(e.registry),
	}
	client := sender.New(sender.Options{
		Timeout:        time.Duration(c.Timeout),
		ConnectTimeout: time.Duration(c.ConnectTimeout),
		Guard:          d.guard,
		UserAgent:      "agentsignal/" + Version,
		Log:            e.log,
		Now:            s.store.Client.Now,
	})
	e.stops.Add("connections to endpoints", func(context.Context) error {
		client.Close()
		return nil
	})
	stored := webhookStore{s.store.Logs, d.webhooks.Settings, d.webhooks.Queue, d.webhooks.Mails, d.webhooks.Retention}
	d.deliverer = webhook.New(stored, client, secrets, webhook.Options{
		Name: name,
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
		MaxPending:         c.MaxPending,
		OrderWait:          orderWait(c.OrderWait),
		Mailer:             mailer,
		Addresses:          addresses{s.store.Credentials},
		Now:                s.store.Client.Now,
		Log:                e.log,
		Metrics:            d.attempts,
	})
	return d, nil
}

// webhookStore is what the owners of partitions use of the store of webhooks.
type webhookStore struct {
	*eventlog.Store
	*deliveries.Settings
	*deliveries.Queue
	*deliveries.Mails
	*deliveries.Retention
}

// deliveryStore is what requests use of it.
type deliveryStore struct {
	*deliveries.History
	*deliveries.Changes
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

func durations(list []configs.Duration) []time.Duration {
	d := make([]time.Duration, len(list))
	for i := range list {
		d[i] = time.Duration(list[i])
	}
	return d
}

// addresses has the email addresses of accounts.
type addresses struct{ accounts *credentials.Store }

// Email implements webhook.Addresses.
func (a addresses) Email(ctx context.Context, id signal.AccountID) (string, error) {
	account, _, err := a.accounts.AccountByID(ctx, id)
	return account.Email, err
}
