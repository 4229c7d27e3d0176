package http

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/mcp"
	"github.com/agentsignal/agentsignal/http/request"
)

// mcpPath is where the Model Context Protocol is served.
const mcpPath = "/mcp"

// MCPHandlers answer messages of the Model Context Protocol.
type MCPHandlers struct {
	origins *Origins

	once     sync.Once // at the first request: the schemas of the tools take a megabyte
	messages http.Handler
}

// NewMCPHandlers returns the handlers of the protocol for clients that are no pages, or pages of origins.
func NewMCPHandlers(origins *Origins) *MCPHandlers { return &MCPHandlers{origins: origins} }

// Routes implements Resource. A request counts as a read; the requests of its tools count by themselves, and they
// have the credential of the request.
func (h *MCPHandlers) Routes() []*Route {
	return []*Route{route(mcpPath, methods{"POST": {guard: anyToken, class: limits.Reads, readers: true,
		handle: checked(h.answer)}})}
}

// answer answers POST /mcp.
func (h *MCPHandlers) answer(c *call) error {
	if !h.origins.allListed(c.r) {
		return errForeignOrigin
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
	h.once.Do(func() {
		h.messages = mcp.New(http.HandlerFunc(c.server.serve),
			mcp.Options{MaxBodyBytes: maxBodyBytes, Log: c.server.log, InternalError: internalErrorText})
	})
	r := c.r.Clone(c.r.Context())
	r.Header["Content-Type"] = headerJSON // which may be absent
	r.Header["X-Request-Id"] = []string{c.id}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	w := recorder{header: http.Header{}}
	h.messages.ServeHTTP(&w, r)
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
