package durability

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// Without Redis, no part logs the same failure each time that it retries, however often the
// service is probed.
func TestAnOutageOfRedisLogsFewLines(t *testing.T) {
	t.Parallel()
	const maxLines = 2 // of one part: its read may break off, and its next one be refused
	redis := redistest.NewDurable(t)
	s := e2e.Launch(t, "REDIS_URL="+redis.URL(), "LOG_LEVEL=info", "DATA_DIR="+t.TempDir(), "MARKET_SOURCE=simulated",
		"LEASE=1s", "PARTITIONS=4")
	c := e2e.NewClient(t, s.URL, "")
	c.Await("/readyz", http.StatusOK)
	e2e.Eventually(t, "the service serves", func() bool { return s.Log.Line(`"msg":"agentsignal serves"`) != "" })
	if line := s.Log.Line("prices are simulated"); line != "" {
		t.Errorf("simulated prices that were asked for are logged: %s", line)
	}
	before := strings.Count(s.Log.String(), "\n")
	redis.Kill()
	failed := 0
	e2e.Eventually(t, "30 probes fail", func() bool {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if c.Get(path).Status == http.StatusServiceUnavailable {
				failed++
			}
		}
		return failed >= 30
	})
	lines := strings.Split(strings.TrimSpace(s.Log.String()), "\n")[before:]
	byPart := map[string][]string{}
	for _, line := range lines {
		part := loggingPart(t, line)
		byPart[part] = append(byPart[part], line)
	}
	for part, lines := range byPart {
		if len(lines) > maxLines {
			t.Errorf("%s: %d lines while %d probes failed, want at most %d:\n%s", part, len(lines), failed, maxLines,
				strings.Join(lines, "\n"))
		}
	}
	if s.Log.Line(`"path":"/readyz"`, `"status":503`) == "" {
		t.Error("that the service is not ready is not logged")
	}
	redis.Restart()
	c.Await("/readyz", http.StatusOK)
}

// loggingPart returns what a line of the log says apart from when, why and for how long.
func loggingPart(t *testing.T, line string) string {
	t.Helper()
	members := map[string]any{}
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for _, name := range []string{"time", "err", "epoch", "bytes", "ms"} {
		delete(members, name)
	}
	return fmt.Sprint(members)
}
