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
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/gorilla/websocket"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/cors"
)

// Options configure a Server. The first group is required.
type Options struct {
	Agents      Agents
	Catalogue   Catalogue
	Signals     Signals
	Credentials Credentials
	Limits      Limiter
	Replies     Replies
	Sealer      Sealer
	Hub         Hub

	Reads Reads // nil: what was read needs no confirmation

	// Without Webhooks the others of this group are not needed, and the paths of webhooks do
	// not exist.
	Webhooks   Webhooks
	Deliveries Deliveries
	Addresses  Addresses
	Envelope   Envelope

	Challenges Challenges // nil: endpoints of webhooks are not challenged
	Weather    Weather    // nil: no weather signals
	Work       Work       // nil: no scans and backtests
	Scorecards Scorecards // nil: no scorecards
	Record     Record     // nil: no record
	RecordKeys []string   // public keys of the record
	Witnesses  Witnesses  // of the record
	Audits     Audits     // nil: no audits
	Schedules  Schedules  // nil: no schedules
	Assets     Assets     // nil: every name is accepted, and there is no list
	// Speed returns how many times as fast as real time the bars of an asset go by; nil: 1.
	Speed        func(ctx context.Context, asset string) int64
	Registration bool // POST /v1/auth/register exists
	// Waiting refuses every request that needs one of the above: they are not there yet.
	Waiting bool

	CORSOrigins    []string       // exact origins, such as https://app.example.com; default none
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is trusted; default none
	TLS            *tls.Config    // nil: plain HTTP
	// MaxAnonymous is the limit of open connections of a client's address on which no
	// credential has been accepted; default 1,000.
	MaxAnonymous int
	// MaxExports and MaxAccountExports are the limits of exports under way, of all accounts and
	// of one; default 16 and 2.
	MaxExports, MaxAccountExports int

	Health   Health
	Gatherer prometheus.Gatherer // for /metrics; nil: this server has no /metrics
	Metrics  *Metrics            // nil: nothing is counted
	Log      *slog.Logger        // nil: none
	Tracing  bool                // spans by the global OpenTelemetry provider

	// WriteTimeout limits the answering of a request and must exceed the longest run;
	// default 90 s.
	WriteTimeout time.Duration
	// ExportStall limits the sending of a piece of an export; default 30 s.
	ExportStall time.Duration
	// HeaderTimeout and BodyTimeout limit the sending of a request; default 10 s and 30 s.
	HeaderTimeout, BodyTimeout time.Duration
	Now                        func() time.Time // the service's clock; default time.Now
}

const (
	idleTimeout    = 2 * time.Minute // between two requests of a connection
	maxHeaderBytes = 64 << 10
)

// Server answers the requests of the API. Its methods are safe for concurrent use.
type Server struct {
	o        Options
	log      *slog.Logger
	router   *mux.Router
	routes   []*endpoint
	cors     *cors.Cors // nil: no origins
	origins  map[string]bool
	upgrader websocket.Upgrader
	gzip     func(http.Handler) http.HandlerFunc
	handler  http.Handler
	http     *http.Server
	heir     atomic.Pointer[Server] // answers the requests in place of this one; nil: none
	// anonymous counts connections without a credential.
	anonymous *anonymous
	exports   *exports
	versions  []apiVersion

	draining atomic.Bool // not ready, but serving
	refusing atomic.Bool // refuses new requests
}

// New returns a server that does not listen yet. The error names a malformed CORS
// origin.
func New(o Options) (*Server, error) {
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 90*time.Second)
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, 30*time.Second)
	o.MaxAnonymous = cmp.Or(o.MaxAnonymous, 1000)
	o.MaxExports = cmp.Or(o.MaxExports, 16)
	o.MaxAccountExports = cmp.Or(o.MaxAccountExports, 2)
	o.ExportStall = cmp.Or(o.ExportStall, exportStall)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Assets == nil {
		o.Assets = anyAsset{}
	}
	if o.Speed == nil {
		o.Speed = func(context.Context, string) int64 { return 1 }
	}
	if o.Weather == nil {
		o.Weather = noWeather{}
	}
	s := &Server{o: o, log: o.Log.With("component", "http"), versions: apiVersions, origins: make(map[string]bool)}
	if err := s.allowOrigins(o.CORSOrigins); err != nil {
		return nil, err
	}
	var err error
	if s.gzip, err = gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.EnableZstd(false),
		gzhttp.CompressionLevel(gzip.BestSpeed)); err != nil {
		return nil, fmt.Errorf("make compression: %w", err)
	}
	s.upgrader = newUpgrader()
	s.anonymous = newAnonymous(o.MaxAnonymous, o.TrustedProxies)
	s.exports = newExports(o.MaxExports, o.MaxAccountExports)
	s.addRoutes()
	s.handler = http.HandlerFunc(s.serve)
	if o.Tracing {
		s.handler = traced(s.handler)
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.pass),
		TLSConfig:         o.TLS,
		ReadHeaderTimeout: o.HeaderTimeout,
		ReadTimeout:       o.WriteTimeout,
		WriteTimeout:      o.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       s.anonymous.context,
		ConnState:         s.anonymous.state,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// allowOrigins lets pages of other origins use the API.
func (s *Server) allowOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			return fmt.Errorf("allow origin %q: must be a scheme and a host, such as https://app.example.com", origin)
		}
		s.origins[strings.ToLower(origin)] = true
	}
	if len(origins) == 0 {
		return nil
	}
	s.cors = cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "Mcp-Method", "Mcp-Name",
			"Mcp-Protocol-Version", "Traceparent",
			"X-Request-Id", "X-Service-Version"},
		ExposedHeaders: []string{"Deprecation", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Policy",
			"Retry-After", "Sunset", "WWW-Authenticate", "X-RateLimit-Limit", "X-RateLimit-Remaining",
			"X-RateLimit-Reset", "X-Request-Id", "X-Run-Id", "X-Service-Version"},
		MaxAge:             600,
		OptionsPassthrough: true,
	})
	return nil
}

// Handler returns the handler of requests, for tests and other listeners.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers the requests of ln until Shutdown. It then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	serve := s.http.Serve
	if s.o.TLS != nil {
		serve = func(ln net.Listener) error { return s.http.ServeTLS(ln, "", "") }
	}
	if err := serve(anonymousListener{ln, s}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

// TakeOver makes s answer the requests of former, which serves, also on connections that are open.
// former.Serve then returns after s.Shutdown. Connections keep the TLS, the limits and the time limits that
// former has for them.
func (s *Server) TakeOver(former *Server) {
	s.http, s.anonymous = former.http, former.anonymous
	former.heir.Store(s)
}

// pass answers a request, or has the server do so that has taken over.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	if heir := s.heir.Load(); heir != nil {
		s = heir
	}
	s.handler.ServeHTTP(w, r)
}

// Drain makes /readyz answer 503, so that load balancers send no more requests. Requests are
// still served.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown closes the listeners, refuses new requests and waits until those in flight are
// answered. WebSocket connections belong to the hub, which closes them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.refusing.Store(true)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if err = errors.Join(err, s.anonymous.refusals.Close(ctx)); err != nil {
		return fmt.Errorf("shut HTTP down: %w", err)
	}
	return nil
}
