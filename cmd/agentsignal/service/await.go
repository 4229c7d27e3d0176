package service

import (
	"context"
	"errors"

	"github.com/agentsignal/agentsignal/actors/backoff"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// buildWaiting builds the server that answers while this process waits for Redis: the service is alive and
// not ready, and refuses other requests.
func (p *process) buildWaiting() error {
	absent := func(context.Context) error { return errors.New("the service waits for redis") }
	health := signalhttp.Health{Streams: absent, Actors: absent, Redis: func(context.Context) error {
		err, _ := p.storeFault.Load().(error)
		return err
	}}
	waiting, err := p.newServer(signalhttp.Options{Waiting: true, Health: health})
	if err != nil {
		return err
	}
	p.undo.Add("waiting", func(ctx context.Context) error { // does nothing if the parts have ended already
		return errors.Join(waiting.Shutdown(ctx), p.background.Close(ctx))
	})
	p.serving.Store(waiting)
	return nil
}

// awaitStore waits for Redis if it has not answered newProcess, and then builds the parts. If ctx ends
// first, p.store stays nil.
func (p *process) awaitStore(ctx context.Context) error {
	if p.store != nil {
		return nil
	}
	if err := p.openStore(ctx); err != nil || p.store == nil {
		return err
	}
	return p.buildParts(ctx)
}

// openStore opens the store when Redis answers, or returns nil if ctx ends first.
func (p *process) openStore(ctx context.Context) error {
	for {
		err := p.buildStore(ctx)
		if !p.awaitsRedis(err) {
			return err
		}
		p.storeFault.Store(redisFault(err))
		if ctx.Err() == nil && !p.reportRefusal(err) {
			p.log.Warn("waiting for redis: start it, or correct the setting redis.url", "err", err)
		}
		if !backoff.Sleep(ctx, installEvery) {
			return nil
		}
	}
}
