// Package mcp serves the Model Context Protocol. Its tools send requests of the API to a handler of the API, so
// that credentials, scopes, limits, values and errors have one rule (decision 66).
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	version       = "2026-11-01" // of the tools
	versionHeader = "Mcp-Protocol-Version"
)

// Options configure a Handler.
type Options struct {
	MaxBodyBytes  int64
	Log           *slog.Logger
	InternalError string // the message of a panic
}

// Handler answers messages. It keeps no state between requests, so that any node may answer them.
type Handler struct {
	messages      http.Handler
	log           *slog.Logger
	internalError string
}

// New returns a handler whose tools send requests to api.
func New(api http.Handler, o Options) *Handler {
	h := &Handler{log: o.Log, internalError: o.InternalError}
	server := mcp.NewServer(&mcp.Implementation{Name: "agentsignal", Title: "Agent Signal Service", Version: version},
		&mcp.ServerOptions{Instructions: instructions,
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	server.AddReceivingMiddleware(h.guard)
	(&tools{client{api}}).addTo(server)
	h.messages = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			Stateless:    true,
			JSONResponse: true,
			// The address of the service's proxy is often that of this machine, and its Host is not. Callers of
			// the handler refuse pages, and each request needs a credential.
			DisableLocalhostProtection: true,
			MaxRequestBodyBytes:        o.MaxBodyBytes,
		})
	return h
}

// ServeHTTP answers a message. The requests of tools have the address, the credential and the X-Request-Id of r.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r = r.Clone(context.WithValue(r.Context(), outerKey{}, r))
	r.Body = io.NopCloser(bytes.NewReader(body))
	if refusal := negotiate(r.Header, body); refusal != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(refusal)
		return
	}
	h.messages.ServeHTTP(w, r)
}

// guard recovers from panics, which would end the process, and refuses a stream of messages, which has
// no single answer: nothing here changes while the process runs. To errors of tools, its own and those of the
// SDK, it adds that they rest on nothing.
func (h *Handler) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if reason := recover(); reason != nil {
				h.log.Error("handler panicked", "panic", fmt.Sprint(reason), "method", method,
					"stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: h.internalError}
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

// negotiate prepares the header of a message for the SDK, which would refuse initialize because of a version
// before that can be negotiated, and other messages without the versions that there are. It returns the
// refusal of a version that is not known, or nil.
func negotiate(h http.Header, body []byte) []byte {
	message, _ := jsonrpc.DecodeMessage(body) // the SDK reports the error
	asked, _ := message.(*jsonrpc.Request)
	if asked != nil && asked.Method == "initialize" {
		h.Del(versionHeader)
	}
	version, known := h.Get(versionHeader), mcp.SupportedProtocolVersions()
	if asked == nil || version == "" || slices.Contains(known, version) {
		return nil
	}
	data, _ := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: known, Requested: version}) // texts
	refusal, _ := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: asked.ID, Error: &jsonrpc.Error{
		Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data}})
	return refusal
}
