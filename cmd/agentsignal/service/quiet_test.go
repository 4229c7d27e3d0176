package service

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Without Redis, retries are not logged each time, however often the service is probed.
func TestAnOutageOfRedisLogsFewLines(t *testing.T) {
	t.Parallel()
	const maxLines = 24 // one of each of 10 parts, two of each of 4 partitions, and some to spare
	redis := redistest.New(t)
	s := launch(t, "REDIS_URL="+redis.URL(), "LOG_LEVEL=info", "DATA_DIR="+t.TempDir(), "MARKET_SOURCE=simulated",
		"LEASE=1s", "PARTITIONS=4")
	c := newClient(t, s.url, "")
	c.await("/readyz", http.StatusOK)
	eventually(t, "the service serves", func() bool { return s.log.Line(`"msg":"agentsignal serves"`) != "" })
	before := strings.Count(s.log.String(), "\n")
	redis.Kill()
	failed := 0
	eventually(t, "30 probes fail", func() bool {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if c.get(path).Status == http.StatusServiceUnavailable {
				failed++
			}
		}
		return failed >= 30
	})
	lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")[before:]
	if len(lines) > maxLines {
		t.Errorf("%d lines while %d probes failed, want at most %d:\n%s", len(lines), failed, maxLines,
			strings.Join(lines, "\n"))
	}
	if s.log.Line(`"path":"/readyz"`, `"status":503`) == "" {
		t.Error("that the service is not ready is not logged")
	}
	redis.Restart()
	c.await("/readyz", http.StatusOK)
}
