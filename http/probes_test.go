package http_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Probes and scrapes come every few seconds. They are logged only if they fail, with the same
// line each time.
func TestProbesLeaveNoLineWhileAllIsWell(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var away atomic.Bool
	s := newServer(t, &fakes{}, func(o *config) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Gatherer = prometheus.NewRegistry()
		o.Health.Redis = func(context.Context) error {
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}
	})
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if a := do(t, s, "GET", path, ""); a.Status != 200 {
			t.Errorf("%s answers %d", path, a.Status)
		}
	}
	if text := log.String(); text != "" {
		t.Errorf("probes that succeed are logged:\n%s", text)
	}
	away.Store(true)
	do(t, s, "GET", "/readyz", "", "X-Request-Id: r1")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "status=503") {
		t.Fatalf("a probe that fails is logged as\n%s", log.String())
	}
	if strings.Contains(lines[0], "request=") || strings.Contains(lines[0], "address=") {
		t.Errorf("it differs each time: %s", lines[0])
	}
}
