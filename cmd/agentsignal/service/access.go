package service

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	credentialstore "github.com/agentsignal/agentsignal/persistence/credentials"
)

// access decides who may do what, and how often.
type access struct {
	credentials *credentials.Service
	limiter     *limits.Limiter
}

func newAccess(e environment, s *storage, signingKeys []credential.NamedKey) (*access, error) {
	c := e.config.Auth
	accounts := credentials.New(s.store.Credentials, s.events, signingKeys, credentials.Options{
		AccessTTL:   time.Duration(c.AccessTTL),
		RefreshTTL:  time.Duration(c.RefreshTTL),
		SessionTTL:  time.Duration(c.SessionTTL),
		MaxSessions: c.MaxSessions,
		MaxReaders:  e.config.Limits.Readers,
		Lock: credential.LockRules{
			After:    c.LockAfter,
			Window:   time.Duration(c.LockWindow),
			Duration: time.Duration(c.LockDuration),
		},
		Now:     s.store.Client.Now,
		Log:     e.log,
		Metrics: credentials.NewMetrics(e.registry),
	})
	e.stops.Add("credentials", accounts.Authenticator.Close)
	quotas, err := quotasOf(e.config.RateLimit)
	if err != nil {
		return nil, err
	}
	limiter := limits.New(s.store.Requests, limits.Options{Quotas: quotas, Log: e.log})
	e.stops.Add("limiter", limiter.Close)
	return &access{accounts, limiter}, nil
}

// followEnded ends the use of credentials that another node has ended, whatever partitions this node
// follows: first new requests, then connections.
func (a *access) followEnded(ctx context.Context, ended *credentialstore.Store, hub *dashboard.Hub) error {
	return ended.Follow(ctx, func(events []signal.Event) {
		a.credentials.Authenticator.Forget(events)
		hub.Revoke(events)
	}, a.credentials.Authenticator.ForgetAll)
}

// runQuota is the rate limit of runs, which schedules and requests of an account share.
type runQuota struct{ limiter *limits.Limiter }

// TakeRun implements schedule.Quota.
func (q runQuota) TakeRun(ctx context.Context, account signal.AccountID) bool {
	return q.limiter.Take(ctx, limits.Runs, string(account)).Allowed
}
