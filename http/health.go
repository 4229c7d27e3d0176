package http

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Health holds the checks of the process. A nil function finds no fault. The message of a
// *signal.Error is shown among the warnings.
type Health struct {
	Alive    func(ctx context.Context) error // the root actor answers
	Redis    func(ctx context.Context) error // Redis accepts writes
	Streams  func(ctx context.Context) error // the tail is attached
	Actors   func(ctx context.Context) error // the actors are started and answer
	Warnings func() []string                 // for people, such as that nothing survives a restart
}

const (
	aliveTimeout = time.Second
	readyTimeout = 500 * time.Millisecond
)

// Readiness is the answer of /readyz.
type Readiness struct {
	Status   string   `json:"status"` // ready, not_ready, draining
	Checks   Checks   `json:"checks"`
	Warnings []string `json:"warnings"`
}

// Checks has the outcome of each check of /readyz: ok or failed.
type Checks struct {
	Redis   string `json:"redis"`
	Streams string `json:"streams"`
	Actors  string `json:"actors"`
}

const (
	checkOK     = "ok"
	checkFailed = "failed"
)

// liveness is the answer of /healthz.
type liveness struct {
	Status string `json:"status"` // ok, failed
}

// healthHandlers answer for the state of the process.
type healthHandlers struct {
	checks   Health
	log      *slog.Logger
	draining atomic.Bool // not ready, but serving
}

// Routes implements Resource.
func (h *healthHandlers) Routes() []*Route {
	return []*Route{route("/healthz", probed(open(h.healthz))), route("/readyz", probed(open(h.readyz)))}
}

// healthz answers GET /healthz. It never depends on Redis.
func (h *healthHandlers) healthz(c *call) error {
	if ask := h.checks.Alive; ask != nil {
		ctx, cancel := context.WithTimeout(c.r.Context(), aliveTimeout)
		defer cancel()
		if err := ask(ctx); err != nil {
			c.err = err
			return c.value(http.StatusServiceUnavailable, liveness{checkFailed})
		}
	}
	return c.value(http.StatusOK, liveness{checkOK})
}

// readyz answers GET /readyz.
func (h *healthHandlers) readyz(c *call) error {
	r := h.ready(c.r.Context())
	status := http.StatusOK
	if r.Status != "ready" {
		status = http.StatusServiceUnavailable
	}
	return c.value(status, r)
}

// ready returns whether the process should get requests and which checks failed. Errors that
// are not meant for clients are only logged.
func (h *healthHandlers) ready(ctx context.Context) Readiness {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r := Readiness{Status: "ready", Checks: Checks{checkOK, checkOK, checkOK}, Warnings: []string{}}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards r.Warnings
	run := func(name string, check func(context.Context) error, result *string) {
		if check == nil {
			return
		}
		wg.Go(func() {
			err := panics.ErrPanicked
			panics.Guard(h.log, panics.Background, func() { err = check(ctx) }, "check", name)
			if err != nil {
				h.log.Debug("readiness check failed", "check", name, "err", err)
				*result = checkFailed
				if e, ok := errors.AsType[*signal.Error](err); ok {
					mu.Lock()
					defer mu.Unlock()
					r.Warnings = append(r.Warnings, e.Message)
				}
			}
		})
	}
	run("redis", h.checks.Redis, &r.Checks.Redis)
	run("streams", h.checks.Streams, &r.Checks.Streams)
	run("actors", h.checks.Actors, &r.Checks.Actors)
	wg.Wait()
	if r.Checks != (Checks{checkOK, checkOK, checkOK}) {
		r.Status = "not_ready"
	}
	if h.draining.Load() {
		r.Status = "draining"
	}
	if h.checks.Warnings != nil {
		r.Warnings = append(r.Warnings, h.checks.Warnings()...)
	}
	return r
}
