package cluster

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// The master of a service is killed. A run with a key, repeated until it is answered, is there once,
// and so is what was acknowledged before.
func TestTheServiceOutlivesItsRedisMaster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewWatched(t, 2)
	c := e2e.TestConfig(t, redis.URL())
	c.Partitions, c.Redis.WaitReplicas = 4, 1
	c.Redis.Timeout = configs.Duration(4 * time.Second) // so that requests are soon repeated
	s := e2e.Start(t, c)
	trader, _ := s.Account(t)
	body := `{"asset":"standing desk","strategy":"blog_post"}`
	run := func(key string) (a e2e.Answer) {
		t.Helper()
		e2e.Eventually(t, "run "+key+" is answered", func() bool {
			a = trader.Post("/v1/agents/seo/run", body, "Idempotency-Key: "+key)
			return a.Status == http.StatusOK
		})
		return a
	}
	first := run("first")
	redis.Master.Kill()
	second := run("second")
	for key, want := range map[string]e2e.Answer{"first": first, "second": second} {
		if again := run(key); again.Body != want.Body {
			t.Errorf("run %s is answered with %s, before with %s", key, again.Body, want.Body)
		}
	}
	e2e.Eventually(t, "the service is ready again", func() bool { return s.Client(t).Get("/readyz").Status == http.StatusOK })
	var list e2e.Answer
	e2e.Eventually(t, "the list is answered", func() bool { // the first read of the new master may be refused
		list = trader.Get("/v1/signals")
		return list.Status == http.StatusOK
	})
	if n := e2e.Decode[e2e.Page](t, list.Body).Total; n != 2 {
		t.Errorf("%d signals are listed, want 2", n)
	}
}
