package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	signalhttp "github.com/agentsignal/agentsignal/http"
)

// waiting is the server that answers while this process waits for Redis: the service is alive and
// not ready, and refuses other requests.
type waiting struct {
	server *signalhttp.Server
	log    *slog.Logger
	fault  atomic.Value // error: why this process waits
}

func newWaiting(e environment, n *node) (*waiting, error) {
	w := &waiting{log: e.log}
	absent := func(context.Context) error { return errors.New("the service waits for redis") }
	health := signalhttp.Health{Streams: absent, Actors: absent, Redis: func(context.Context) error {
		err, _ := w.fault.Load().(error)
		return err
	}}
	var err error
	w.server, err = newServer(e, n, signalhttp.Options{Waiting: true, Health: health})
	return w, err
}

// await calls open until Redis answers. It returns nil if ctx ends first.
func (w *waiting) await(ctx context.Context, open func(context.Context) (*storage, error)) (*storage, error) {
	for {
		s, err := open(ctx)
		if !redisIsAbsent(err) {
			return s, err
		}
		w.fault.Store(redisFault(err))
		if ctx.Err() == nil {
			logAwaited(w.log, err)
		}
		if !backoff.Sleep(ctx, installEvery) {
			return nil, nil
		}
	}
}

// redisIsAbsent reports whether err means that Redis may answer later.
func redisIsAbsent(err error) bool { return signal.KindOf(err) == signal.KindUnavailable }
