package service

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// awaitStore waits for Redis if it has not answered newProcess, and then builds the parts. Meanwhile the
// service is alive and not ready, and refuses other requests. If ctx ends first, p.store stays
// nil.
func (p *process) awaitStore(ctx context.Context) (err error) {
	if p.store != nil {
		return nil
	}
	var last atomic.Value // why Redis could not be used: an error
	o := signalhttp.Options{
		Waiting: true,
		TLS:     p.certificate.config(),
		Health:  waitingHealth(&last),
		Log:     p.log,
		Metrics: p.httpMetrics,
	}
	if p.config.HTTP.AdminAddr == "" {
		o.Gatherer = p.registry
	}
	server, err := signalhttp.New(o)
	if err != nil {
		return err
	}
	p.serving.Store(server)
	served := make(chan error, 1)
	go func() {
		err := panics.ErrPanicked
		panics.Guard(p.log, panics.Background, func() { err = server.Serve(lentListener{p.listener}) }, "task", "await redis")
		served <- err
	}()
	err = p.openStore(ctx, &last)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestGrace)
	defer cancel()
	err = errors.Join(err, server.Shutdown(end), <-served, setDeadline(p.listener, time.Time{}))
	if err != nil || p.store == nil {
		return err
	}
	return p.buildParts(ctx)
}

// openStore opens the store when Redis answers, or returns nil if ctx ends first. It stores the
// last error in last.
func (p *process) openStore(ctx context.Context, last *atomic.Value) error {
	for {
		err := p.buildStore(ctx)
		if !p.awaitsRedis(err) {
			return err
		}
		last.Store(redisFault(err))
		if ctx.Err() == nil && !p.reportRefusal(err) {
			p.log.Warn("waiting for redis: start it, or correct the setting redis.url", "err", err)
		}
		if !backoff.Sleep(ctx, installEvery) {
			return nil
		}
	}
}

// waitingHealth returns the checks of a service without parts.
func waitingHealth(last *atomic.Value) signalhttp.Health {
	absent := func(context.Context) error { return errors.New("the service waits for redis") }
	return signalhttp.Health{
		Redis: func(context.Context) error {
			err, _ := last.Load().(error)
			return err
		},
		Streams: absent,
		Actors:  absent,
	}
}

// lentListener is a listener that a server gives back when it closes it: its Accept ends.
type lentListener struct{ net.Listener }

// Close implements net.Listener.
func (l lentListener) Close() error { return setDeadline(l.Listener, time.Unix(0, 1)) }

// setDeadline sets until when l accepts connections.
func setDeadline(l net.Listener, t time.Time) error {
	if tcp, ok := l.(*net.TCPListener); ok {
		return tcp.SetDeadline(t)
	}
	return nil
}
