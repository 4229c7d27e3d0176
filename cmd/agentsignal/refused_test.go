package main

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A wrong password of Redis, at the start or after it was rotated, makes the service not
// ready. It says which setting is at fault, once, without the password, and goes on when
// the password is right.
func TestAWrongRedisPassword(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	admin := server.Client().Conn()
	t.Cleanup(func() { admin.Close() })
	rotate := func(password string) {
		t.Helper()
		if err := admin.ConfigSet(context.Background(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
		if err := admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
			t.Fatal(err)
		}
	}
	rotate("another-one")
	c := launch(t, childSettings(t, server.URLFor("", "the-password"), "AUTH_REGISTRATION=open")...)
	public := c.client(t)
	failedPipelines := func() float64 {
		return metricOf(public.get("/metrics").want(t, http.StatusOK).Body, "agentsignal_redis_errors_total", `command="pipeline"`)
	}
	// The gauges are read by pipelines.
	notReady := func() {
		t.Helper()
		before := failedPipelines()
		eventually(t, "a pipeline failed", func() bool { return failedPipelines() > before })
		public.get("/readyz").want(t, http.StatusServiceUnavailable)
		public.get("/healthz").want(t, http.StatusOK)
	}
	public.get("/readyz").want(t, http.StatusServiceUnavailable)
	eventually(t, "the setting is named", func() bool { return c.log.line(`"level":"ERROR"`, "redis.url", refusesUserOrPassword) != "" })
	notReady()

	rotate("the-password")
	c.awaitReady(t)
	trader := register(public)
	rotate("another-one")
	notReady()
	trader.get("/v1/agents").want(t, http.StatusServiceUnavailable)
	rotate("the-password")
	c.awaitReady(t)
	eventually(t, "requests are answered again", func() bool { return trader.get("/v1/agents").Status == http.StatusOK })
	c.signal(syscall.SIGTERM)
	if code, _ := c.exit(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
	if n := strings.Count(c.log.String(), refusesUserOrPassword); n > 2 { // it lasted for less than two minutes
		t.Errorf("the refusal is logged %d times", n)
	}
	if line := c.log.line("the-password"); line != "" {
		t.Errorf("the log has the password: %s", line)
	}
	c.log.forget(refusesUserOrPassword)
}

const refusesUserOrPassword = `"reason":"redis refuses the user or the password of redis.url"`
