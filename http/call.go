package http

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/request"
)

// Media types of answers.
const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeHTML    = "text/html; charset=utf-8"
	typeYAML    = "application/yaml"
)

// Header values that many answers share. They are read-only.
var (
	headerJSON    = []string{typeJSON}
	headerProblem = []string{typeProblem}
	headerNoStore = []string{"no-store"}
	headerNoSniff = []string{"nosniff"}
	headerNoRefer = []string{"no-referrer"}
	headerAPICSP  = []string{"default-src 'none'; frame-ancestors 'none'"}
	headerHSTS    = []string{"max-age=31536000"}
	headerOne     = []string{"1"}
)

// compressFrom is the minimum size of an answer that is compressed on request.
const compressFrom = 1<<10 + 1

// call is one request and the writer of its answer, which records what was written.
type call struct {
	http.ResponseWriter
	r      *http.Request
	server *Server
	start  time.Time

	id        string // X-Request-Id
	address   string // of the client
	route     *Route // nil: the path does not exist
	operation *operation
	vars      map[string]string // of the path
	principal signal.Principal  // zero on public endpoints
	alert     *alert            // of a token in the path
	query     *request.Query    // the parameters of the operation; its faults are in faults
	faults    request.Faults
	// confirms makes the answer wait for Options.Reads. It begins as that of the operation.
	confirms bool

	status int // 0 until the answer begins
	bytes  int64
	// failure is what Server.answer answers with: the error of a check or of the operation.
	failure error
	err     error  // the cause of an answer that is an error
	then    func() // runs after the request has been counted and logged; see stream.go
}

// WriteHeader implements http.ResponseWriter. It does not record informational statuses.
func (c *call) WriteHeader(status int) {
	if c.status == 0 && status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The answer to a HEAD has no body.
func (c *call) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	if c.r.Method == http.MethodHead {
		return len(b), nil
	}
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// Unwrap serves http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack implements http.Hijacker for upgrades.
func (c *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := c.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, fmt.Errorf("hijack connection: %w", http.ErrNotSupported)
	}
	return h.Hijack()
}

// Reads confirms what answers show.
type Reads interface {
	// ConfirmRead waits until a failover can no longer lose what was read of an account's records
	// before the call. KindUnavailable: it may lose it.
	ConfirmRead(ctx context.Context, account signal.AccountID) error
}

// confirm waits until a failover can no longer lose what the request has read.
func (c *call) confirm() error {
	if c.server.o.Reads == nil {
		return nil
	}
	return c.server.o.Reads.ConfirmRead(c.r.Context(), c.principal.Account)
}

// dependsOnRecords reports whether err shows what is stored.
func dependsOnRecords(err error) bool {
	kind := signal.KindOf(err)
	return kind == signal.KindNotFound || kind == signal.KindConflict
}

// send writes the whole answer once what it shows is confirmed. It ignores errors of writing: the
// client has left.
func (c *call) send(status int, contentType []string, body []byte) error {
	if status < http.StatusBadRequest && c.confirms {
		if err := c.confirm(); err != nil {
			return err
		}
	}
	h := c.Header()
	h["Content-Type"] = contentType
	compressible := len(body) >= compressFrom && c.route != nil && c.route.compress
	if compressible && strings.Contains(strings.ToLower(c.r.Header.Get("Accept-Encoding")), "gzip") {
		c.server.gzip(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write(body)
		})).ServeHTTP(c, c.r)
		return nil
	}
	if compressible {
		h.Add("Vary", "Accept-Encoding")
	}
	if len(body) >= compressFrom || c.r.Method == http.MethodHead { // net/http counts short ones itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.WriteHeader(status)
	_, _ = c.Write(body)
	return nil
}

// json answers with an encoded document.
func (c *call) json(status int, body []byte) error { return c.send(status, headerJSON, body) }

// value answers with the JSON of v.
func (c *call) value(status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.json(status, body)
}

// encoded answers 200 with a document, unless encoding it has failed.
func (c *call) encoded(body []byte, err error) error {
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, body)
}

// noContent answers 204.
func (c *call) noContent() error {
	c.WriteHeader(http.StatusNoContent)
	return nil
}

// fail writes an error document.
func (c *call) fail(p *problem) {
	h := c.Header()
	p.setHeaders(h)
	h["Content-Security-Policy"], h["Cache-Control"] = headerAPICSP, headerNoStore // also where pages may be cached
	body := p.document(shownPath(c.r), c.id)
	_ = c.send(p.Status, headerProblem, body)
}

// body reads the body of the request, up to the endpoint's limit.
func (c *call) body() ([]byte, error) {
	return readBody(c.ResponseWriter, c.r, c.route.bodyLimit, c.server.o.BodyTimeout)
}

// raw is body for a request whose type does not matter.
func (c *call) raw() ([]byte, error) {
	return readRaw(c.ResponseWriter, c.r, c.route.bodyLimit, c.server.o.BodyTimeout)
}

// base returns the scheme and the host by which the client has reached the service, as far as it or a trusted
// proxy says so.
func (c *call) base() string {
	scheme := "http"
	peer, err := netip.ParseAddrPort(c.r.RemoteAddr)
	trusted := err == nil && isTrusted(peer.Addr().Unmap().WithZone(""), c.server.o.Connections.trusted)
	if c.r.TLS != nil || trusted && strings.EqualFold(c.r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host
}

// object reads a required body. If that is not an object, it returns the faults of the
// request.
func (c *call) object() (*request.Object, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	o := request.ReadObject(body, &c.faults)
	if o == nil {
		return nil, c.faults.Err()
	}
	return o, nil
}

// decode reads a required body with read and returns the faults of the request.
func (c *call) decode(read func(o *request.Object)) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	return c.finish(o, read)
}

// finish reads o with read, records its unknown members and returns the faults of the
// request. o is nil if reading the body failed.
func (c *call) finish(o *request.Object, read func(o *request.Object)) error {
	if o != nil {
		read(o)
		o.Close()
	}
	return c.faults.Err()
}

// decodeOptional reads an optional body with read. It returns the body, and the faults of
// the request. The type of an empty body does not matter.
func (c *call) decodeOptional(read func(o *request.Object)) (body []byte, err error) {
	if c.r.ContentLength != 0 {
		if body, err = c.body(); err != nil {
			return nil, err
		}
	}
	return body, c.finish(request.ReadOptional(body, &c.faults), read)
}

// empty is decodeOptional for a request whose body has no members.
func (c *call) empty() ([]byte, error) { return c.decodeOptional(func(*request.Object) {}) }

// client returns the context of the request with its origin, for the log of credentials.
func (c *call) client() context.Context {
	return credentials.WithClient(c.r.Context(), credentials.Client{Address: c.address, Request: c.id})
}
