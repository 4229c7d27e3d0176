package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// outerKey is the context key of the request whose body holds the messages.
type outerKey struct{}

// client sends requests to the API.
type client struct{ api http.Handler }

// passedHeaders are those of the outer request that those of its tools have, too.
var passedHeaders = []string{"Authorization", "X-Forwarded-For", "Traceparent", "X-Service-Version", "X-Request-Id"}

// ask has the API answer a request as it answers one of the client that calls a tool, and
// reads the answer into v. It returns the header of the answer. The error is a *toolError.
func (c client) ask(
	ctx context.Context, method, target string, body []byte, header http.Header, v any,
) (http.Header, error) {
	outer := ctx.Value(outerKey{}).(*http.Request)
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	r.Host, r.RemoteAddr, r.TLS = outer.Host, outer.RemoteAddr, outer.TLS
	if header != nil {
		r.Header = header
	}
	for _, name := range passedHeaders {
		if values := outer.Header[name]; values != nil {
			r.Header[name] = values
		}
	}
	w := answer{header: http.Header{}}
	c.api.ServeHTTP(&w, r)
	if w.status >= http.StatusBadRequest {
		// The texts name what the reader can use.
		document := bytes.ReplaceAll(w.body.Bytes(), []byte("GET /v1/assets lists all"), []byte("the tool list_assets lists all"))
		e := &toolError{document: document, retryAfter: w.header.Get("Retry-After")}
		_ = json.Unmarshal(e.document, &e.problem) // each error has a document, and an empty one is shown as it is
		return nil, e
	}
	if err := json.Unmarshal(w.body.Bytes(), v); err != nil {
		return nil, fmt.Errorf("read answer to %s %s: %w", method, target, err)
	}
	return w.header, nil
}

// answer records an answer of the API.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) WriteHeader(status int)      { w.status = status }
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }

// toolError is the error document of a request.
type toolError struct {
	document   []byte
	retryAfter string // in seconds; "" if it is not known
	problem    struct {
		Title, Detail, Code string
		Errors              []struct{ Pointer, Parameter, Header, Detail string }
	}
}

// Error returns a text for the model, and behind it the document.
func (e *toolError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", e.problem.Title, e.problem.Code, e.problem.Detail)
	for _, fault := range e.problem.Errors {
		fmt.Fprintf(&b, "\n%s%s%s: %s", strings.TrimPrefix(fault.Pointer, "/"), fault.Parameter, fault.Header, fault.Detail)
	}
	if e.retryAfter != "" {
		fmt.Fprintf(&b, "\nTry again in %s s.", e.retryAfter)
	}
	b.WriteByte('\n')
	b.Write(e.document)
	return b.String()
}
