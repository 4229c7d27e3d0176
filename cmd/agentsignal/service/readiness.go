package service

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// aliveTimeout is that of /healthz.
const aliveTimeout = time.Second

// readiness is what /healthz and /readyz report.
type readiness struct {
	storage    *storage
	system     *engine.System
	membership *membership
	risks      *risks
	fixed      []string // warnings that hold as long as the process runs
}

// checks returns the checks of /healthz and /readyz.
func (r *readiness) checks() signalhttp.Health {
	return signalhttp.Health{
		Alive: r.system.Alive,
		Redis: func(ctx context.Context) error {
			if err := r.storage.store.Client.Readiness.Check(ctx); err != nil {
				return redisFault(err)
			}
			return nil
		},
		Streams: func(context.Context) error {
			if !r.storage.tail.Attached() {
				return errors.New("the tail is not attached")
			}
			return nil
		},
		Actors: func(ctx context.Context) error {
			if r.membership.joined.Load() == nil {
				return errors.New("the node has not joined the installation")
			}
			return r.system.Alive(ctx)
		},
		Warnings: r.warnings,
	}
}

// alive is the check of /healthz. Before the node has joined the installation there is nothing to check.
func (r *readiness) alive(ctx context.Context) error {
	if r.membership.joined.Load() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	return r.system.Alive(ctx)
}

// warnings returns why data may be lost, and that prices are simulated although this was not asked for.
func (r *readiness) warnings() []string {
	warnings := append([]string(nil), r.fixed...)
	if c := r.storage.store.Client; c.Replicas.Optional() && c.Replicas.Missing() {
		warnings = append(warnings, "Replicas of Redis are missing: changes are acknowledged without them, "+
			"and a failover may lose these.")
	}
	return append(warnings, r.risks.list()...)
}

// fixedWarnings returns the warnings that follow from the settings and the machine.
func fixedWarnings(e environment, n *node) []string {
	var warnings []string
	if e.config.Market.SourceByDefault {
		warnings = append(warnings, "Prices are simulated, as market.source is not set.")
	}
	if n.embedded != nil && !n.embedded.Durable() {
		warnings = append(warnings, "No Redis server is installed: data are kept in this process, "+
			"and nothing survives a restart.")
	}
	return warnings
}

// redisFault returns the error of /readyz for an error of Redis.
func redisFault(err error) error {
	reason, _ := redisclient.Refusal(err)
	return &signal.Error{Kind: signal.KindUnavailable, Message: cmp.Or(reason, "redis cannot be reached"), Cause: err}
}
