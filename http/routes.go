package http

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

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
	inPath                 // a token in the path; see alerts.go
)

// Resource is a part of the API with its paths.
type Resource interface {
	Routes() []*Route
}

// operation is one method of a path.
type operation struct {
	guard  guard
	scope  signal.Scope // that the credential must carry; "" for no scope
	class  limits.Class // of its rate limit; "" for no limit
	handle func(*call) error
	// authenticate sets the principal of a handshake, or of a token in the path.
	authenticate func(*call) error
	params       []string // of its query; others are refused
	// anyQuery accepts every query: links to pages may carry parameters of others.
	anyQuery bool
	always   bool // answered while the process ends, too
	probe    bool // requested every few seconds: only failures are logged
	secret   bool // its answers hold a secret: they are stored encrypted
	readers  bool // answers readers, with what their view has; they are refused where it is not set
	// confirms makes answers wait for Options.Reads: they show records of the account that a failover
	// may lose. Errors that depend on records wait, too.
	confirms bool

	method string
	tally  tally
}

// Route is one path with its operations.
type Route struct {
	template  string // the path with {names}, also the route label of metrics
	methods   methods
	allow     []string // the header Allow
	compress  bool
	cached    bool  // may be kept by caches
	page      bool  // sets its own Content-Security-Policy
	bodyLimit int64 // bytes
}

// route returns the route of a path. Answers are compressed on request, except those under /v1/auth and of
// the stream.
func route(template string, m methods) *Route {
	auth := strings.HasPrefix(template, "/v1/auth/")
	e := &Route{
		template:  template,
		methods:   m,
		compress:  !auth && !strings.HasSuffix(template, "/dashboard"),
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
	return e
}

// ServeHTTP runs the operation that Server.choose has found. A route has all methods of its path, so that
// the first route with the path decides: GET of /v1/webhooks/{id}/deliveries/retry is a wrong method, and not
// the delivery "retry".
func (*Route) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c := w.(*call)
	c.confirms = c.operation.confirms
	c.failure = c.operation.handle(c)
	if c.failure != nil && c.confirms && dependsOnRecords(c.failure) {
		if unconfirmed := c.confirm(); unconfirmed != nil {
			c.failure = unconfirmed
		}
	}
}

// always reports whether a method is answered even if the service cannot serve requests.
func (e *Route) always(method string) bool {
	op := e.operation(method)
	return op != nil && op.always
}

// operation returns the operation of a method, or nil. HEAD is GET without a body, which the stream does not have.
func (e *Route) operation(method string) *operation {
	if method != http.MethodHead {
		return e.methods[method]
	}
	if op := e.methods[http.MethodGet]; op != nil && op.guard != handshake {
		return op
	}
	return nil
}

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

// seen makes an operation answer readers, whose view it respects.
func seen(op *operation) *operation {
	op.readers = true
	return op
}

// change returns an operation of the class writes. A change waits for replicas where it is stored; its
// answer waits for what was read, since it may show a former change instead of making one.
func change(scope signal.Scope, handle func(*call) error) *operation {
	return &operation{guard: anyToken, scope: scope, class: limits.Writes, handle: handle, confirms: true}
}

// session returns an operation that changes what only a logged-in person may change.
func session(handle func(*call) error) *operation {
	return &operation{guard: jwtOnly, class: limits.Writes, handle: handle, confirms: true}
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
func unknownPath(path string, routes []*Route) error {
	if len(path) > maxComparedPath {
		return errNotFound
	}
	given, near := parts(path), []string(nil)
	for _, e := range routes {
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
