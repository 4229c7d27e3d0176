package http

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"

	"github.com/agentsignal/agentsignal/http/tracing"
)

// Options configure a Server. Those of the first group are required, except by a server that is Waiting.
type Options struct {
	Authenticator Authenticator
	Limits        Limiter

	Reads Reads // nil: what was read needs no confirmation
	// Waiting refuses all requests but those that are always answered: the other parts are not there yet.
	Waiting bool
	Health  Health

	Origins     *Origins          // of pages that may use the API; nil: none
	Connections *ConnectionLimit  // nil: 1,000 of an address, and no trusted proxies
	TLS         *tls.Config       // nil: plain HTTP
	Metrics     *Metrics          // nil: nothing is counted
	Log         *slog.Logger      // nil: none
	Tracing     *tracing.Exporter // of spans; nil: none
	Now         func() time.Time  // the service's clock; default time.Now

	// WriteTimeout limits the answering of a request and must exceed the longest run;
	// default 90 s.
	WriteTimeout time.Duration
	// HeaderTimeout and BodyTimeout limit the sending of a request; default 10 s and 30 s.
	HeaderTimeout, BodyTimeout time.Duration
}

const (
	idleTimeout    = 2 * time.Minute // between two requests of a connection
	maxHeaderBytes = 64 << 10

	// Of a connection by HTTP/2 that is silent, with an answer that has no end.
	pingAfter  = 30 * time.Second
	pongWithin = 20 * time.Second
)

// Server listens, and answers the requests of the API by its resources. Its methods are safe for concurrent
// use.
type Server struct {
	o         Options
	log       *slog.Logger
	router    *mux.Router
	routes    []*Route
	auth      authenticator
	limits    rateLimits
	health    *healthHandlers
	gzip      func(http.Handler) http.HandlerFunc
	handler   http.Handler
	http      *http.Server
	successor atomic.Pointer[Server] // answers the requests in place of this one; nil: none
	refusing  atomic.Bool            // refuses new requests
	stopping  chan struct{}          // closed at the same time, for answers that have no end
	stop      func()                 // closes stopping
}

// New returns a server with the routes of the resources, which are tried in their order, so the busiest come
// first. It does not listen yet.
func New(o Options, resources ...Resource) (*Server, error) {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 90*time.Second)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Connections == nil {
		o.Connections = NewConnectionLimit(0, nil, o.Metrics)
	}
	s := &Server{
		o:      o,
		log:    o.Log.With("component", "http"),
		auth:   authenticator{o.Authenticator},
		limits: rateLimits{o.Limits, o.Metrics, o.Now},

		stopping: make(chan struct{}),
	}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	s.health = &healthHandlers{checks: o.Health, log: s.log}
	var err error
	if s.gzip, err = gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.EnableZstd(false),
		gzhttp.CompressionLevel(gzip.BestSpeed)); err != nil {
		return nil, fmt.Errorf("make compression: %w", err)
	}
	s.mount(append(resources, apiVersions, s.health))
	s.handler = http.HandlerFunc(s.serve)
	if o.Tracing != nil {
		s.handler = o.Tracing.Handler(s.handler)
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.pass),
		TLSConfig:         o.TLS,
		ReadHeaderTimeout: o.HeaderTimeout,
		ReadTimeout:       o.WriteTimeout,
		WriteTimeout:      o.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       o.Connections.context,
		ConnState:         o.Connections.state,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin},
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// mount adds the routes of the resources and the checks that precede their operations, in the order of the
// package comment.
func (s *Server) mount(resources []Resource) {
	s.router = mux.NewRouter().SkipClean(true)
	s.router.NotFoundHandler = step(s.notFound)(nil)
	s.router.Use(step(s.choose), step(s.admit), step(s.readQuery))
	for _, resource := range resources {
		for _, route := range resource.Routes() {
			// Names of assets, such as BTC/USD, and paths of tiles may have slashes.
			pattern := strings.NewReplacer("{asset}", "{asset:.+}", "{path}", "{path:.+}").Replace(route.template)
			s.router.Handle(pattern, route)
			s.routes = append(s.routes, route)
		}
	}
}

// Routes returns "METHOD path" of every operation, sorted.
func (s *Server) Routes() []string {
	var all []string
	for _, route := range s.routes {
		for method := range route.methods {
			all = append(all, method+" "+route.template)
		}
	}
	slices.Sort(all)
	return all
}

// Handler returns the handler of requests, for tests and other listeners.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers the requests of ln until Shutdown. It then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	serve := s.http.Serve
	if s.o.TLS != nil {
		serve = func(ln net.Listener) error { return s.http.ServeTLS(ln, "", "") }
	}
	listener := limitedListener{Listener: ln, limit: s.o.Connections, log: s.log, plain: s.o.TLS == nil}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// TakeOver makes s answer the requests of former, which serves, also on connections that are open.
// former.Serve then returns after s.Shutdown. Connections keep the TLS, the limits and the time limits that
// former has for them.
func (s *Server) TakeOver(former *Server) {
	s.http = former.http
	former.successor.Store(s)
}

// pass answers a request, or has the server do so that has taken over.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	if successor := s.successor.Load(); successor != nil {
		s = successor
	}
	s.handler.ServeHTTP(w, r)
}

// Ready returns whether the process should get requests and which checks failed. Errors that
// are not meant for clients are only logged.
func (s *Server) Ready(ctx context.Context) Readiness { return s.health.ready(ctx) }

// Drain makes /readyz answer 503, so that load balancers send no more requests. Requests are
// still served.
func (s *Server) Drain() { s.health.draining.Store(true) }

// Shutdown closes the listeners, refuses new requests and waits until those in flight are
// answered. Connections of the stream that it has taken over belong to the hub, which closes them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.refusing.Store(true)
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if err = errors.Join(err, s.o.Connections.refusals.Close(ctx)); err != nil {
		return fmt.Errorf("shut HTTP down: %w", err)
	}
	return nil
}
