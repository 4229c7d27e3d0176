package service

import (
	"cmp"
	"context"
	"errors"

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
		Warnings: func() []string {
			if p.embedded != nil && !p.embedded.Durable() {
				return []string{"No Redis server is installed: data are kept in this process, " +
					"and nothing survives a restart."}
			}
			return nil
		},
	}
}
