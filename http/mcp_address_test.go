package http_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	signalhttp "github.com/agentsignal/agentsignal/http"
)

// TestRequestsOfToolsComeFromTheClient behind a trusted proxy, as the request that calls the tool does.
func TestRequestsOfToolsComeFromTheClient(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newServer(t, &fakes{}, func(o *signalhttp.Options) {
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} // that of httptest
	})
	do(t, s, "POST", "/mcp", mcpCall, append(mcpHeaders, "X-Forwarded-For: 203.0.113.7")...)
	paths := map[string]bool{}
	for line := range strings.Lines(log.String()) {
		var logged struct{ Msg, Path, Address string }
		if err := json.Unmarshal([]byte(line), &logged); err != nil {
			t.Fatal(err)
		}
		if logged.Msg != "request" {
			continue
		}
		if paths[logged.Path] = true; logged.Address != "203.0.113.7" {
			t.Errorf("%s is logged as of %s", logged.Path, logged.Address)
		}
	}
	if !paths["/mcp"] || !paths["/v1/signals/"+string(signalID)] {
		t.Errorf("the log has requests of %v", paths)
	}
}
