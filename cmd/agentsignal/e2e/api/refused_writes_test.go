package api

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

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A wrong password of Redis, at the start or after it was rotated, makes the service not
// ready. It logs the faulty setting once, without the password, and recovers with the right
// password.
func TestAWrongRedisPassword(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	server := redistest.New(t)
	admin := server.Client().Conn()
	t.Cleanup(func() { admin.Close() })
	rotate := func(password string) {
		t.Helper()
		e2e.Must(t, admin.ConfigSet(context.Background(), "requirepass", password).Err())
		e2e.Must(t, admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal").Err())
	}
	rotate("another-one")
	c := e2e.Launch(t, e2e.ChildSettings(t, server.URLFor("", "the-password"), "AUTH_REGISTRATION=open")...)
	public := c.Client(t)
	failedPipelines := func() float64 {
		return e2e.MetricOf(public.Get("/metrics").Ok(t).Body, "agentsignal_redis_errors_total", `command="pipeline"`)
	}
	// The gauges are read by pipelines.
	notReady := func() {
		t.Helper()
		before := failedPipelines()
		e2e.Eventually(t, "a pipeline failed", func() bool { return failedPipelines() > before })
		public.Get("/readyz").Want(t, http.StatusServiceUnavailable)
		public.Get("/healthz").Ok(t)
	}
	public.Get("/readyz").Want(t, http.StatusServiceUnavailable)
	e2e.Eventually(t, "the setting is named",
		func() bool { return c.Log.Line(`"level":"ERROR"`, "redis.url", refusesUserOrPassword) != "" })
	notReady()

	rotate("the-password")
	c.AwaitReady(t)
	trader := e2e.Register(public)
	rotate("another-one")
	notReady()
	trader.Get("/v1/agents").Want(t, http.StatusServiceUnavailable)
	rotate("the-password")
	c.AwaitReady(t)
	trader.Await("/v1/agents", http.StatusOK)
	c.Signal(syscall.SIGTERM)
	c.Exits(0)
	if n := strings.Count(c.Log.String(), refusesUserOrPassword); n > 2 { // it lasted for less than two minutes
		t.Errorf("the refusal is logged %d times", n)
	}
	if line := c.Log.Line("the-password"); line != "" {
		t.Errorf("the log has the password: %s", line)
	}
	c.Log.Forget(refusesUserOrPassword)
}

const refusesUserOrPassword = `"reason":"redis refuses the user or the password of redis.url"`

// While Redis refuses writes the service is not ready and reports why, and so does a request
// that was to write. It recovers by itself.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	server := redistest.NewDurable(t) // without it there is one more warning
	config := e2e.TestConfig(t, server.URL())
	config.Redis.Timeout = configs.Duration(4 * time.Second) // for which a write is tried
	s := e2e.Start(t, config)
	trader, _ := s.Account(t)
	rdb := server.Client()
	// A directory where the file of a snapshot belongs makes all snapshots fail.
	e2e.Must(t, os.MkdirAll(filepath.Join(server.Dir(), "dump.rdb", "x"), 0o700))
	write := func() e2e.Answer {
		return trader.Post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`)
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
			e2e.Must(t, err)
		}
		set(c.refusing, "127.0.0.1", "1")
		if c.setting == "save" {
			rdb.BgSave(t.Context())
			e2e.Eventually(t, "a snapshot fails", func() bool {
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
		e2e.Eventually(t, c.reason+": the service is not ready", func() bool {
			health := s.Client(t).Get("/readyz")
			r = e2e.Decode[readiness](t, health.Body)
			return health.Status == http.StatusServiceUnavailable && r.Checks.Redis == "failed"
		})
		t.Logf("%s: not ready after %s", c.reason, time.Since(began))
		if r.Status != "not_ready" || !slices.Equal(r.Warnings, []string{c.reason}) {
			t.Errorf("/readyz answers %+v, want the warning %q", r, c.reason)
		}
		refused := write()
		refused.Fails(t, "unavailable")
		if !strings.Contains(refused.Body, c.reason) || strings.Contains(refused.Body, "reach") ||
			refused.Header.Get("Retry-After") == "" {
			t.Errorf("a write is answered with %s", refused.Body)
		}
		set(c.taking, "NO", "ONE")
		s.AwaitReady(t)
		e2e.Eventually(t, "a write is taken again", func() bool { return write().Status == http.StatusOK })
	}
}
