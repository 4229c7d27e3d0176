// Package apitest compares what the service receives and sends with its descriptions,
// openapi.yaml and asyncapi.yaml. It is for tests, of package http and of the whole
// service:
//
//	check := apitest.NewHTTP(t, "openapi.yaml")
//	client := &http.Client{Transport: check.Transport(t, nil)}
//
// An answer must be described in its status, headers and body; a request that was
// accepted must be described too. Objects have exactly the described members, also
// where the description leaves room for later ones.
package apitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

func init() {
	for _, text := range []string{"text/html", "text/css", "text/javascript", "application/javascript", "image/png",
		"image/svg+xml", "application/atom+xml", "text/csv", "application/x-ndjson", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.FileBodyDecoder)
	}
}

// HTTP checks requests and responses. It is safe for concurrent use.
type HTTP struct {
	doc    *openapi3.T
	router routers.Router
}

// NewHTTP reads the description in a file. It fails the test if that is not valid OpenAPI.
func NewHTTP(tb testing.TB, file string) *HTTP {
	tb.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile(file)
	if err != nil {
		tb.Fatalf("load description: %v", err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		tb.Fatalf("the description is not valid: %v", err)
	}
	closeObjects(doc)
	if err := simplify(doc); err != nil {
		tb.Fatalf("simplify the description: %v", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		tb.Fatalf("route description: %v", err)
	}
	return &HTTP{doc: doc, router: router}
}

// Routes returns "METHOD path" of every operation, for each of its servers.
func (h *HTTP) Routes() []string {
	var all []string
	for path, item := range h.doc.Paths.Map() {
		servers := h.doc.Servers
		if len(item.Servers) > 0 {
			servers = item.Servers
		}
		for method := range item.Operations() {
			for _, server := range servers {
				all = append(all, method+" "+strings.TrimSuffix(server.URL, "/")+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// closeObjects forbids undescribed members of all objects that do not specify whether they
// have others.
func closeObjects(doc *openapi3.T) {
	no := false
	seen := make(map[*openapi3.Schema]bool)
	var walk func(ref *openapi3.SchemaRef)
	walk = func(ref *openapi3.SchemaRef) {
		if ref == nil || ref.Value == nil || seen[ref.Value] {
			return
		}
		s := ref.Value
		seen[s] = true
		more := &s.AdditionalProperties
		if s.Type.Includes(openapi3.TypeObject) && more.Has == nil && more.Schema == nil {
			more.Has = &no
		}
		for _, p := range s.Properties {
			walk(p)
		}
		for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
			for _, p := range list {
				walk(p)
			}
		}
		walk(s.Items)
	}
	for _, s := range doc.Components.Schemas {
		walk(s)
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, r := range op.Responses.Map() {
				for _, m := range r.Value.Content {
					walk(m.Schema)
				}
			}
		}
	}
}

// simplify expresses a description of OpenAPI 3.1 by keywords of 3.0. For 3.1 the library compiles a schema
// again for each value, which takes longer than the request; for 3.0 it compiles nothing. Of the later keywords
// it then ignores all but lists of types, so that simplify returns an error if there is one that it cannot replace.
func simplify(doc *openapi3.T) error {
	err := doc.WalkSchemas(func(at string, ref *openapi3.SchemaRef) error {
		s := ref.Value
		if s.Const != nil {
			s.Enum, s.Const = []any{s.Const}, nil
		}
		if s.PrefixItems != nil || s.Contains != nil || s.PatternProperties != nil || s.DependentSchemas != nil ||
			s.DependentRequired != nil || s.PropertyNames != nil || s.If != nil || s.Then != nil || s.Else != nil ||
			s.ContentSchema != nil || s.UnevaluatedItems.Has != nil || s.UnevaluatedItems.Schema != nil ||
			s.UnevaluatedProperties.Has != nil || s.UnevaluatedProperties.Schema != nil {
			return fmt.Errorf("%s has a keyword that OpenAPI 3.0 does not have", at)
		}
		return nil
	})
	doc.OpenAPI = "3.0.3"
	return err
}

// Exchange is a request and its answer.
type Exchange struct {
	Request     *http.Request // its body is not read
	RequestBody []byte
	Status      int
	Header      http.Header
	Body        []byte // without compression
}

// Check returns the differences of an exchange from its description.
func (h *HTTP) Check(x Exchange) error {
	r := x.Request.Clone(context.Background())
	if r.Method == http.MethodHead {
		r.Method = http.MethodGet
		if len(x.Body) > 0 {
			return errors.New("a HEAD was answered with a body")
		}
	}
	route, params, err := h.router.FindRoute(r)
	switch {
	case errors.Is(err, routers.ErrPathNotFound):
		return h.undescribed(x, http.StatusNotFound)
	case errors.Is(err, routers.ErrMethodNotAllowed) && x.Status == http.StatusNotFound:
		return h.undescribed(x, http.StatusNotFound) // the path is switched off
	case errors.Is(err, routers.ErrMethodNotAllowed) && r.Method == http.MethodOptions:
		if x.Status != http.StatusNoContent || x.Header.Get("Allow") == "" {
			return fmt.Errorf("OPTIONS was answered with %d and Allow %q", x.Status, x.Header.Get("Allow"))
		}
		return nil
	case errors.Is(err, routers.ErrMethodNotAllowed),
		x.Request.Method == http.MethodHead && x.Status == http.StatusMethodNotAllowed: // as of the stream
		if x.Header.Get("Allow") == "" {
			return errors.New("405 without Allow")
		}
		return h.undescribed(x, http.StatusMethodNotAllowed)
	case err != nil:
		return fmt.Errorf("find operation: %w", err)
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true}}
	if accepted(x.Status) {
		normalize(r, x.RequestBody)
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			return fmt.Errorf("the request was accepted with %d but is not described: %w", x.Status, err)
		}
	}
	if x.Request.Method == http.MethodHead && x.Status < 300 {
		return nil // has no body for the schema
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: x.Status, Header: x.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true}}
	out.SetBodyBytes(x.Body)
	if x.Request.Method == http.MethodHead {
		out.Options.ExcludeResponseBody = true
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		return fmt.Errorf("the answer %d is not described: %w", x.Status, err)
	}
	return nil
}

// accepted reports whether a request with this status had valid values.
func accepted(status int) bool {
	return status < 300 || status == http.StatusConflict || status == http.StatusUnprocessableEntity
}

// int64Digits is the length of the longest number that the validator can read.
const int64Digits = 18

// normalize gives a request the form that the validator can read: the media type is JSON but for plain text, an
// empty parameter or version is absent, and integers have 64 bits.
func normalize(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.Header.Get("X-Service-Version") == "" {
		r.Header.Del("X-Service-Version")
	}
	if len(body) == 0 {
		r.Body = http.NoBody
	}
	query := r.URL.Query()
	for name, values := range query {
		if values[0] == "" {
			query.Del(name)
		} else if len(values[0]) > int64Digits && strings.Trim(values[0], "0123456789") == "" {
			query.Set(name, values[0][:int64Digits])
		}
	}
	r.URL.RawQuery = query.Encode()
}

// undescribed checks the answer to a request that is not in the description.
func (h *HTTP) undescribed(x Exchange, want int) error {
	if x.Status != want {
		return fmt.Errorf("a request that is not described was answered with %d", x.Status)
	}
	if len(x.Body) == 0 && x.Request.Method == http.MethodHead {
		return nil
	}
	if got := x.Header.Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("the answer %d has the media type %q", want, got)
	}
	var document any
	if err := unmarshal(x.Body, &document); err != nil {
		return fmt.Errorf("read the answer %d: %w", want, err)
	}
	schema := h.doc.Components.Schemas["Problem"].Value
	if err := schema.VisitJSON(document, openapi3.MultiErrors()); err != nil {
		return fmt.Errorf("the answer %d is not a problem: %w", want, err)
	}
	return nil
}

// Handler forwards requests to next and checks each exchange except upgrades.
func (h *HTTP) Handler(tb testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			next.ServeHTTP(w, r)
			return
		}
		body := readAll(tb, r.Body)
		original := r.Clone(r.Context()) // which next cannot change
		// ContentLength is kept, even if it is wrong or unknown.
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		answer := rec.Result()
		h.report(tb, Exchange{Request: original, RequestBody: body, Status: answer.StatusCode, Header: answer.Header,
			Body: plain(tb, answer.Header, rec.Body.Bytes())})
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(rec.Body.Bytes())
	})
}

// Transport forwards requests to base, nil for the default one, and checks each exchange.
func (h *HTTP) Transport(tb testing.TB, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		var sent []byte
		if r.Body != nil {
			sent = readAll(tb, r.Body)
			r = r.Clone(r.Context())
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		answer, err := base.RoundTrip(r)
		if err != nil || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, err
		}
		received := readAll(tb, answer.Body)
		_ = answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(received))
		h.report(tb, Exchange{Request: r, RequestBody: sent, Status: answer.StatusCode, Header: answer.Header,
			Body: plain(tb, answer.Header, received)})
		return answer, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// report fails the test if an exchange differs from its description.
func (h *HTTP) report(tb testing.TB, x Exchange) {
	if err := h.Check(x); err != nil {
		tb.Errorf("%s %s: %v\nrequest: %.500s\nanswer: %.1000s", x.Request.Method, x.Request.URL.RequestURI(), err,
			x.RequestBody, x.Body)
	}
}

// plain returns a body without compression.
func plain(tb testing.TB, h http.Header, body []byte) []byte {
	if h.Get("Content-Encoding") != "gzip" || len(body) == 0 {
		return body
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		tb.Errorf("open compressed answer: %v", err)
		return nil
	}
	return readAll(tb, r)
}

func readAll(tb testing.TB, r io.Reader) []byte {
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Errorf("read body: %v", err)
	}
	return b
}
