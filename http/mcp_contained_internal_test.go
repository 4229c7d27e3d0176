package http

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAPanicOfAToolIsContained: the library runs tools in goroutines of its own, where a panic ends the process.
func TestAPanicOfAToolIsContained(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	// Without the call in its context, a tool panics when it asks.
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcpPath, strings.NewReader(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	w := httptest.NewRecorder()
	s.newMCP().ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), internalErrorText) ||
		strings.Contains(w.Body.String(), "interface conversion") {
		t.Errorf("a tool that panics answers %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "handler panicked") || !strings.Contains(log.String(), "interface conversion") {
		t.Errorf("the log has %q", log.String())
	}
}
