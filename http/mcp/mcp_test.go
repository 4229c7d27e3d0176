package mcp

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
	h := New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at the API") }),
		Options{Log: slog.New(slog.NewTextHandler(&log, nil)), InternalError: "something broke"})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "something broke") ||
		strings.Contains(w.Body.String(), "at the API") {
		t.Errorf("a tool that panics answers %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "handler panicked") || !strings.Contains(log.String(), "at the API") {
		t.Errorf("the log has %q", log.String())
	}
}
