package http

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// This file serves the Model Context Protocol at /mcp. Its tools, in mcp_tools.go, send requests of the
// API to this server, so that credentials, scopes, limits, values and errors have one rule (decision 66).

const (
	mcpPath          = "/mcp"
	mcpVersion       = "2026-11-01" // of the tools
	mcpVersionHeader = "Mcp-Protocol-Version"
)

// callKey is the context key of the call whose body holds the messages.
type callKey struct{}

// newMCP returns the handler of the messages. It keeps no state between requests, so that any node may
// answer them.
func (s *Server) newMCP() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "agentsignal", Title: "Agent Signal Service", Version: mcpVersion},
		&mcp.ServerOptions{Instructions: mcpInstructions,
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	server.AddReceivingMiddleware(s.guardMCP)
	s.addTools(server)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: true,
		// The address of the service's proxy is often that of this machine, and its Host is not. checkOrigin
		// refuses pages, and each request needs a credential.
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        maxBodyBytes,
	})
}

// guardMCP recovers from panics, which would end the process, and refuses a stream of messages, which has
// no single answer: nothing here changes while the process runs. To errors of tools, its own and those of the
// SDK, it adds that they rest on nothing.
func (s *Server) guardMCP(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if reason := recover(); reason != nil {
				s.log.Error("handler panicked", "panic", fmt.Sprint(reason), "method", method,
					"stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: internalErrorText}
			}
		}()
		if method == "subscriptions/listen" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
		}
		result, err = next(ctx, method, r)
		if answer, ok := result.(*mcp.CallToolResult); ok && answer != nil && answer.IsError {
			answer.Content = append(answer.Content, &mcp.TextContent{Text: noEvidence})
		}
		return result, err
	}
}

// addMCP adds the route of the Model Context Protocol. A request counts as a read; the requests of its
// tools count by themselves. The tools, whose schemas take a megabyte, are made at the first request.
func (s *Server) addMCP() {
	handler := sync.OnceValue(s.newMCP)
	s.add(mcpPath, methods{http.MethodPost: {guard: anyToken, class: limits.Reads, handle: checked(func(c *call) error {
		return s.answerMCP(c, handler())
	})}})
}

// answerMCP answers POST /mcp.
func (s *Server) answerMCP(c *call, handler http.Handler) error {
	if err := s.checkOrigin(c.r); err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	var f request.Faults
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		f.Body("", request.CodeInvalidType, "must be one message: a list of them would pass every limit as one request")
		return f.Err()
	}
	r := c.r.Clone(context.WithValue(c.r.Context(), callKey{}, c))
	if refusal := negotiate(r.Header, body); refusal != nil {
		return c.json(http.StatusBadRequest, refusal)
	}
	r.Header["Content-Type"] = headerJSON // which may be absent
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w := recorder{header: http.Header{}}
	handler.ServeHTTP(&w, r)
	status, contentType := cmp.Or(w.status, http.StatusOK), w.header.Get("Content-Type")
	switch {
	case strings.HasPrefix(contentType, typeJSON):
		return c.json(status, w.body.Bytes())
	case contentType == "text/event-stream":
		f.Body("/method", request.CodeInvalidValue, "the service sends no streams of messages")
	case status < http.StatusBadRequest: // messages without an answer
		c.WriteHeader(status)
	case status < http.StatusInternalServerError:
		f.Body("", request.CodeFormat, strings.TrimSpace(w.body.String()))
	default:
		return fmt.Errorf("answer messages: %d %s", status, w.body.String())
	}
	return f.Err()
}

// negotiate prepares the header of a message for the SDK, which would refuse initialize because of a version
// before that can be negotiated, and other messages without the versions that there are. It returns the
// refusal of a version that is not known, or nil.
func negotiate(h http.Header, body []byte) []byte {
	message, _ := jsonrpc.DecodeMessage(body) // the SDK reports the error
	asked, _ := message.(*jsonrpc.Request)
	if asked != nil && asked.Method == "initialize" {
		h.Del(mcpVersionHeader)
	}
	version, known := h.Get(mcpVersionHeader), mcp.SupportedProtocolVersions()
	if asked == nil || version == "" || slices.Contains(known, version) {
		return nil
	}
	data, _ := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: known, Requested: version}) // texts
	refusal, _ := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: asked.ID, Error: &jsonrpc.Error{
		Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data}})
	return refusal
}

// checkOrigin refuses pages, except those of http.cors_origins. The service's own name is not accepted
// as for the stream: a page may have made it the name of its own host (DNS rebinding).
func (s *Server) checkOrigin(r *http.Request) error {
	for _, origin := range r.Header["Origin"] {
		if !s.origins[strings.ToLower(origin)] {
			return errForeignOrigin
		}
	}
	return nil
}

// toolHeaders are those of the request that those of its tools have, too.
var toolHeaders = []string{"Authorization", "X-Forwarded-For", "Traceparent", versionHeader}

// ask has this server answer a request of the API as it answers one of the client that calls a tool, and
// reads the answer into v. It returns the header of the answer. The error is a *toolError.
func (s *Server) ask(
	ctx context.Context, method, target string, body []byte, header http.Header, v any,
) (http.Header, error) {
	outer := ctx.Value(callKey{}).(*call)
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	r.Host, r.RemoteAddr, r.TLS = outer.r.Host, outer.r.RemoteAddr, outer.r.TLS
	if header != nil {
		r.Header = header
	}
	for _, name := range toolHeaders {
		if values := outer.r.Header[name]; values != nil {
			r.Header[name] = values
		}
	}
	r.Header["X-Request-Id"] = []string{outer.id}
	w := recorder{header: http.Header{}}
	s.serve(&w, r)
	if w.status >= http.StatusBadRequest {
		// The texts name what the reader can use.
		document := bytes.ReplaceAll(w.body.Bytes(), []byte(assetsAdvice), []byte("the tool list_assets lists all"))
		e := &toolError{document: document, retryAfter: w.header.Get("Retry-After")}
		_ = json.Unmarshal(e.document, &e.problem) // each error has a document, and an empty one is shown as it is
		return nil, e
	}
	if err := json.Unmarshal(w.body.Bytes(), v); err != nil {
		return nil, fmt.Errorf("read answer to %s %s: %w", method, target, err)
	}
	return w.header, nil
}

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
