package mcp

import (
	"bytes"
	"io"
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
	w := call(t, h, "list_agents")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "something broke") ||
		strings.Contains(w.Body.String(), "at the API") {
		t.Errorf("a tool that panics answers %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "handler panicked") || !strings.Contains(log.String(), "at the API") {
		t.Errorf("the log has %q", log.String())
	}
}

// call calls a tool without arguments.
func call(t *testing.T, h http.Handler, tool string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A hit rate alone can be made by levels.
func TestHitRatesStandBesideTheirBreakEven(t *testing.T) {
	t.Parallel()
	h := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/v1/scorecard" {
			_, _ = io.WriteString(w, `{"signals":[],"total":0,"has_more":false}`)
			return
		}
		statistics := `{"count":40,"wins":12,"hit_rate":0.3,"hit_rate_interval":{"low":0.181,"high":0.454},"break_even":0.36,` +
			`"break_even_net":0.401}`
		_, _ = io.WriteString(w, `{"statistics":`+statistics+`,"strategies":[{"agent_id":"my_agent","strategy":"cross",`+
			`"count":40,"hit_rate":0.3,"break_even_net":0.401,"expectancy_r":-0.25,"skill":-0.21,`+
			`"skill_interval":{"low":-0.62,"high":0.19},"skill_sample":40}],"groups":[{"agent_id":"my_agent",`+
			`"strategy":"cross","asset":"BTC","timeframe":"1h",`+
			`"risk_level":"low","statistics":`+statistics+`}]}`)
	}), Options{Log: slog.New(slog.DiscardHandler)})
	text := call(t, h, "scorecard").Body.String()
	for part, times := range map[string]int{
		"hit rate 30.0 % (95 % interval 18.1 % to 45.4 %; break-even 36.0 %, after costs 40.1 %)": 2,
		"hit rate 30.0 % (break-even after costs 40.1 %)":                                         1,
		"skill -0.21 (95 % interval -0.62 to +0.19) from 40 signals":                              1,
		"hit rate 30.0 %, 95 % interval 18.1 to 45.4 %, break-even after costs 40.1 %":            1,
	} {
		if n := strings.Count(text, part); n != times {
			t.Errorf("%q stands %d times, want %d, in %s", part, n, times, text)
		}
	}
}
