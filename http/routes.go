package http

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/http/limits"
)

// guard is the credential that an operation requires.
type guard uint8

const (
	public    guard = iota // no credential; a given one is ignored
	anyToken               // an API key or an access token
	jwtOnly                // an access token
	handshake              // the rules of the stream; see stream.go
)

// operation is one method of a path.
type operation struct {
	guard  guard
	scope  signal.Scope // that the credential must carry; "" for no scope
	class  limits.Class // of its rate limit; "" for no limit
	handle func(*call) error
	params []string // of its query; others are refused
	// anyQuery accepts every query: links to pages may carry parameters of others.
	anyQuery bool
	always   bool // answered while the process ends, too
	probe    bool // requested every few seconds: only failures are logged
	secret   bool // its answers hold a secret: they are stored encrypted
	// confirms makes answers wait for Options.Reads: they show records of the account that a failover
	// may lose. Errors that depend on records wait, too.
	confirms bool

	method string
	tally  tally
}

// endpoint is one path with its methods.
type endpoint struct {
	template  string // the path with {names}, also the route label of metrics
	methods   map[string]*operation
	allow     []string // the header Allow
	compress  bool
	cached    bool  // may be kept by caches
	page      bool  // sets its own Content-Security-Policy
	bodyLimit int64 // bytes
}

// always reports whether a method is answered even if the service cannot serve requests.
func (e *endpoint) always(method string) bool {
	op := e.operation(method)
	return op != nil && op.always
}

// ServeHTTP implements http.Handler, as the router requires; it is never called.
func (*endpoint) ServeHTTP(http.ResponseWriter, *http.Request) {}

// methods are the operations of a path.
type methods map[string]*operation

// checked returns handle for requests without values, whose faults, such as unknown
// parameters of the query, are all known before it runs.
func checked(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if err := c.faults.Err(); err != nil {
			return err
		}
		return handle(c)
	}
}

// get returns an operation of the class reads that shows records of the account, with the parameters
// of its query.
func get(scope signal.Scope, handle func(*call) error, params ...string) *operation {
	if len(params) == 0 {
		handle = checked(handle)
	}
	return &operation{guard: anyToken, scope: scope, class: limits.Reads, handle: handle, params: params, confirms: true}
}

// immediate makes an operation answer at once: what it shows is the same after a failover, or was
// confirmed where it was read.
func immediate(op *operation) *operation {
	op.confirms = false
	return op
}

// change returns an operation of the class writes. A change waits for replicas where it is stored; its
// answer waits for what was read, since it may show a former change instead of making one.
func change(scope signal.Scope, handle func(*call) error) *operation {
	return &operation{guard: anyToken, scope: scope, class: limits.Writes, handle: handle, confirms: true}
}

// open returns an operation without a credential and without a limit, which is also answered
// while the process ends.
func open(handle func(*call) error) methods {
	return methods{http.MethodGet: {always: true, handle: checked(handle)}}
}

// probed makes m log only failures.
func probed(m methods) methods {
	for _, op := range m {
		op.probe = true
	}
	return m
}

// anyQuery makes m accept every query.
func anyQuery(m methods) methods {
	for _, op := range m {
		op.anyQuery = true
	}
	return m
}

// addRoutes lists all routes, grouped by the credential that they require. The router tries
// them in this order, so the busiest come first.
func (s *Server) addRoutes() {
	s.router = mux.NewRouter().SkipClean(true)

	// A token with a scope.
	s.add("/v1/agents/{id}/run",
		methods{"POST": {guard: anyToken, scope: signal.AgentsRun, class: limits.Runs, handle: s.runAgent}})
	s.add("/v1/signals", methods{"GET": immediate(get(signal.SignalsRead, s.listSignals,
		slices.Concat(signalFilters, []string{"limit", "offset", "view"})...))})
	s.add("/v1/signals/weather", methods{"GET": immediate(get(signal.SignalsRead, s.listWeather,
		"region", "commodity", "severity", "limit", "offset", "since"))})
	s.add("/v1/signals/weather/{id}", methods{"GET": immediate(get(signal.SignalsRead, s.weatherSignal))})
	s.add("/v1/signals/export", methods{"GET": get(signal.SignalsRead, s.exportSignals,
		slices.Concat(signalFilters, []string{"format"})...)})
	s.add("/v1/signals/{id}", methods{"GET": get(signal.SignalsRead, s.signalByID)})
	s.add("/v1/signals/{id}/history", methods{"GET": get(signal.SignalsRead, s.historyOf)})
	s.add("/v1/jobs/{id}", methods{"GET": get(signal.AgentsRun, s.jobByID)})
	s.add("/v1/jobs", methods{"GET": get(signal.AgentsRun, s.listJobs, "status", "limit", "offset")})
	s.add("/v1/agents", methods{"GET": immediate(get(signal.AgentsRead, s.listAgents, "category", "status", "limit", "offset"))})
	s.add("/v1/agents/{id}", methods{"GET": immediate(get(signal.AgentsRead, s.agentByID))})

	if _, any := s.o.Assets.(anyAsset); !any {
		s.add("/v1/assets", methods{"GET": immediate(get(signal.SignalsRead, s.listAssets))})
		s.add("/v1/assets/{asset}/bars", methods{"GET": immediate(get(signal.SignalsRead, s.assetBars,
			"timeframe", "from", "to"))})
	}
	s.addWork()
	s.addRecord()
	s.addSchedules()
	s.addWebhooks()
	s.addMCP()

	// Any token. An account was confirmed with each of its credentials.
	s.add("/v1/account", methods{"GET": immediate(get("", s.account))})
	s.add("/v1/versions", methods{"GET": immediate(get("", s.listVersions))})

	// The stream.
	for _, path := range []string{"/ws/dashboard", "/v1/ws/dashboard"} {
		s.add(path, methods{"GET": {guard: handshake, class: limits.Streams, handle: s.stream,
			params: streamParams}})
	}

	// An access token.
	s.add("/v1/auth/logout", methods{"POST": {guard: jwtOnly, class: limits.Sessions, handle: s.logout}})
	s.add("/v1/auth/password", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: s.changePassword}})
	s.add("/v1/auth/api-key", methods{"POST": {guard: jwtOnly, class: limits.Writes, handle: s.createKey}})
	s.add("/v1/auth/api-keys", methods{"GET": {guard: jwtOnly, class: limits.Reads, handle: s.listKeys,
		params: []string{"limit", "offset"}}})
	s.add("/v1/auth/api-keys/{key_id}", methods{"DELETE": {guard: jwtOnly, class: limits.Writes,
		handle: checked(s.revokeKey)}})

	// No token.
	s.add("/v1/auth/login", methods{"POST": {class: limits.Logins, handle: s.login}})
	s.add("/v1/auth/refresh", methods{"POST": {class: limits.Sessions, handle: s.refresh}})
	if s.o.Registration {
		s.add("/v1/auth/register", methods{"POST": {class: limits.Registrations, handle: s.register}})
	}
	s.add("/healthz", probed(open(s.healthz)))
	s.add("/readyz", probed(open(s.readyz)))
	if s.o.Gatherer != nil {
		metrics := open(s.metrics())
		metrics[http.MethodGet].class = limits.Scrapes
		s.add("/metrics", probed(metrics))
	}
	s.add("/v1/openapi.json", open(description(openAPIJSON(), typeJSON))).cached = true
	s.add("/v1/openapi.yaml", open(description(openAPI, typeYAML))).cached = true
	s.add("/v1/asyncapi.yaml", open(description(asyncAPI, typeYAML))).cached = true
	s.addPages()
}

// addWebhooks adds the routes of webhooks, if the server has webhooks.
func (s *Server) addWebhooks() {
	if s.o.Webhooks == nil {
		return
	}
	const scope = signal.WebhooksManage
	create := change(scope, s.createWebhook)
	create.secret = true
	s.add("/v1/webhooks", methods{"GET": get(scope, s.listWebhooks, "status", "limit", "offset"), "POST": create})
	s.add("/v1/webhooks/{id}", methods{"GET": get(scope, s.webhookByID), "PATCH": change(scope, s.changeWebhook),
		"DELETE": change(scope, checked(s.removeWebhook))})
	s.add("/v1/webhooks/{id}/rotate-secret", methods{"POST": change(scope, s.rotateSecret)})
	s.add("/v1/webhooks/{id}/test", methods{"POST": change(scope, s.testWebhook)})
	s.add("/v1/webhooks/{id}/deliveries",
		methods{"GET": get(scope, s.listDeliveries, deliveryFilters...)})
	s.add("/v1/deliveries", methods{"GET": get(scope, s.listAllDeliveries,
		append([]string{"webhook_id"}, deliveryFilters...)...)})
	s.add("/v1/webhooks/{id}/deliveries/retry", methods{"POST": change(scope, s.retryDeliveries)})
	s.add("/v1/webhooks/{id}/deliveries/cancel", methods{"POST": change(scope, s.cancelDeliveries)})
	s.add("/v1/webhooks/{id}/deliveries/{delivery_id}", methods{"GET": get(scope, s.deliveryByID)})
	s.add("/v1/webhooks/{id}/deliveries/{delivery_id}/retry", methods{"POST": change(scope, s.retryDelivery)})
	s.add("/v1/webhooks/{id}/deliveries/{delivery_id}/cancel", methods{"POST": change(scope, s.cancelDelivery)})
}

// addPages adds the pages for people.
func (s *Server) addPages() {
	s.add("/", anyQuery(open(redirect(consolePath))))
	s.add("/dashboard", anyQuery(open(redirect(consolePath))))
	for path, handle := range map[string]func(*call) error{
		"/docs": s.docs, "/docs/{file}": s.docsFile, "/problems": s.problemIndex, "/problems/{code}": s.problemPage,
		consolePath: s.consolePage, consolePath + "{file}": s.consoleFile,
	} {
		e := s.add(path, anyQuery(open(handle)))
		e.cached, e.page = true, true
	}
}

// add adds a route. Answers are compressed on request, except those under /v1/auth and of
// the stream.
func (s *Server) add(template string, m methods) *endpoint {
	auth := strings.HasPrefix(template, "/v1/auth/")
	e := &endpoint{
		template:  template,
		methods:   m,
		compress:  !auth && !strings.HasSuffix(template, "/ws/dashboard"),
		bodyLimit: maxBodyBytes,
	}
	if auth {
		e.bodyLimit = maxAuthBodyBytes
	}
	var allow []string
	for method, op := range m {
		op.method = method
		allow = append(allow, method)
		if method == http.MethodGet && op.guard != handshake {
			allow = append(allow, http.MethodHead)
		}
	}
	allow = append(allow, http.MethodOptions)
	slices.Sort(allow)
	e.allow = []string{strings.Join(allow, ", ")}
	// Names of assets, such as BTC/USD, and paths of tiles may have slashes.
	s.router.Handle(strings.NewReplacer("{asset}", "{asset:.+}", "{path}", "{path:.+}").Replace(template), e)
	s.routes = append(s.routes, e)
	return e
}

// match returns the endpoint of a path and the variables of the path, or nil.
func (s *Server) match(r *http.Request) (*endpoint, map[string]string) {
	var m mux.RouteMatch
	if !s.router.Match(r, &m) || m.MatchErr != nil {
		return nil, nil
	}
	e, _ := m.Handler.(*endpoint)
	return e, m.Vars
}

// version matches the part of a path that names a version of the API.
var version = regexp.MustCompile(`^v\d+$`)

// parts splits a path or template at slashes and drops the version.
func parts(path string) []string {
	list := slices.DeleteFunc(strings.Split(path, "/"), func(part string) bool { return part == "" })
	if len(list) > 0 && version.MatchString(list[0]) {
		return list[1:]
	}
	return list
}

// unknownPath returns the error of a path that does not exist. It suggests a path that
// differs only in the version, slashes or case, or else paths with a similar word.
func (s *Server) unknownPath(path string) error {
	if len(path) > maxComparedPath {
		return errNotFound
	}
	given, near := parts(path), []string(nil)
	for _, e := range s.routes {
		template := parts(e.template)
		if len(template) != len(given) || len(given) == 0 {
			continue
		}
		words := slices.Clone(given)
		for i, part := range template {
			if part[0] == '{' {
				template[i], words[i] = "", "" // any value fits
			}
		}
		want, got := strings.Join(template, "/"), strings.Join(words, "/")
		if strings.EqualFold(want, got) {
			near = []string{e.template}
			break
		}
		if len(spelling.Nearest(got, []string{want})) > 0 {
			near = append(near, e.template)
		}
	}
	if len(near) == 0 {
		return errNotFound
	}
	return notFound("path", spelling.DidYouMean(near[:min(len(near), maxSuggestions)]))
}

const (
	// maxComparedPath is the length, in bytes, up to which an unknown path is compared with
	// the existing ones.
	maxComparedPath = 256
	// maxSuggestions is the maximum number of paths that an answer suggests.
	maxSuggestions = 3
)

// operation returns the operation of a method, or nil. HEAD is GET without a body, which the stream does not have.
func (e *endpoint) operation(method string) *operation {
	if method != http.MethodHead {
		return e.methods[method]
	}
	if op := e.methods[http.MethodGet]; op != nil && op.guard != handshake {
		return op
	}
	return nil
}

// Routes returns "METHOD path" of every operation, sorted.
func (s *Server) Routes() []string {
	var all []string
	for _, e := range s.routes {
		for method := range e.methods {
			all = append(all, method+" "+e.template)
		}
	}
	slices.Sort(all)
	return all
}
