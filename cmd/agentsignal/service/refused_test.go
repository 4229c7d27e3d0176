package service

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A wrong password of Redis, at the start or after it was rotated, makes the service not
// ready. It logs the faulty setting once, without the password, and recovers with the right
// password.
func TestAWrongRedisPassword(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	admin := server.Client().Conn()
	t.Cleanup(func() { admin.Close() })
	rotate := func(password string) {
		t.Helper()
		must(t, admin.ConfigSet(context.Background(), "requirepass", password).Err())
		must(t, admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal").Err())
	}
	rotate("another-one")
	c := launch(t, childSettings(t, server.URLFor("", "the-password"), "AUTH_REGISTRATION=open")...)
	public := c.client(t)
	failedPipelines := func() float64 {
		return metricOf(public.get("/metrics").ok(t).Body, "agentsignal_redis_errors_total", `command="pipeline"`)
	}
	// The gauges are read by pipelines.
	notReady := func() {
		t.Helper()
		before := failedPipelines()
		eventually(t, "a pipeline failed", func() bool { return failedPipelines() > before })
		public.get("/readyz").want(t, http.StatusServiceUnavailable)
		public.get("/healthz").ok(t)
	}
	public.get("/readyz").want(t, http.StatusServiceUnavailable)
	eventually(t, "the setting is named",
		func() bool { return c.log.Line(`"level":"ERROR"`, "redis.url", refusesUserOrPassword) != "" })
	notReady()

	rotate("the-password")
	c.awaitReady(t)
	trader := register(public)
	rotate("another-one")
	notReady()
	trader.get("/v1/agents").want(t, http.StatusServiceUnavailable)
	rotate("the-password")
	c.awaitReady(t)
	trader.await("/v1/agents", http.StatusOK)
	c.signal(syscall.SIGTERM)
	c.exits(0)
	if n := strings.Count(c.log.String(), refusesUserOrPassword); n > 2 { // it lasted for less than two minutes
		t.Errorf("the refusal is logged %d times", n)
	}
	if line := c.log.Line("the-password"); line != "" {
		t.Errorf("the log has the password: %s", line)
	}
	c.log.Forget(refusesUserOrPassword)
}

const refusesUserOrPassword = `"reason":"redis refuses the user or the password of redis.url"`

// While Redis refuses writes the service is not ready and reports why, and so does a request
// that was to write. It recovers by itself.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	server := redistest.NewDurable(t) // without it there is one more warning
	s := start(t, testConfig(t, server.URL()))
	trader, _ := s.account(t)
	rdb := server.Client()
	// A directory where the file of a snapshot belongs makes all snapshots fail.
	must(t, os.MkdirAll(filepath.Join(server.Dir(), "dump.rdb", "x"), 0o700))
	write := func() answer {
		return trader.post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`)
	}
	for _, c := range []struct{ reason, setting, refusing, taking string }{
		{"redis is full", "maxmemory", "1", "0"},
		{"replicas are missing", "min-replicas-to-write", "1", "0"},
		{"redis cannot write to its disk", "save", "3600 1", ""},
		{"redis is read-only", "", "", ""},
	} {
		set := func(value, host, port string) {
			t.Helper()
			var err error
			if c.setting == "" {
				err = rdb.ReplicaOf(t.Context(), host, port).Err()
			} else {
				err = rdb.ConfigSet(t.Context(), c.setting, value).Err()
			}
			must(t, err)
		}
		set(c.refusing, "127.0.0.1", "1")
		if c.setting == "save" {
			rdb.BgSave(t.Context())
			eventually(t, "a snapshot fails", func() bool {
				return strings.Contains(rdb.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
			})
		}
		began := time.Now()
		type readiness struct {
			Status   string
			Checks   struct{ Redis string }
			Warnings []string
		}
		var r readiness
		eventually(t, c.reason+": the service is not ready", func() bool {
			health := s.client(t).get("/readyz")
			r = decode[readiness](t, health.Body)
			return health.Status == http.StatusServiceUnavailable && r.Checks.Redis == "failed"
		})
		t.Logf("%s: not ready after %s", c.reason, time.Since(began))
		if r.Status != "not_ready" || !slices.Equal(r.Warnings, []string{c.reason}) {
			t.Errorf("/readyz answers %+v, want the warning %q", r, c.reason)
		}
		refused := write()
		refused.fails(t, "unavailable")
		if !strings.Contains(refused.Body, c.reason) || strings.Contains(refused.Body, "reach") ||
			refused.Header.Get("Retry-After") == "" {
			t.Errorf("a write is answered with %s", refused.Body)
		}
		set(c.taking, "NO", "ONE")
		s.awaitReady(t)
		eventually(t, "a write is taken again", func() bool { return write().Status == http.StatusOK })
	}
}
