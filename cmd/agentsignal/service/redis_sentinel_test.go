package service

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// The master of a service is killed. A run with a key, repeated until it is answered, is there once,
// and so is what was acknowledged before.
func TestTheServiceOutlivesItsRedisMaster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewWatched(t, 2)
	c := testConfig(t, redis.URL())
	c.Partitions, c.Redis.WaitReplicas = 4, 1
	c.Redis.Timeout = configs.Duration(4 * time.Second) // so that requests are soon repeated
	s := start(t, c)
	trader, _ := s.account(t)
	body := `{"asset":"standing desk","strategy":"blog_post"}`
	run := func(key string) (a answer) {
		t.Helper()
		eventually(t, "run "+key+" is answered", func() bool {
			a = trader.post("/v1/agents/seo/run", body, "Idempotency-Key: "+key)
			return a.Status == http.StatusOK
		})
		return a
	}
	first := run("first")
	redis.Master.Kill()
	second := run("second")
	for key, want := range map[string]answer{"first": first, "second": second} {
		if again := run(key); again.Body != want.Body {
			t.Errorf("run %s is answered with %s, before with %s", key, again.Body, want.Body)
		}
	}
	eventually(t, "the service is ready again", func() bool { return s.client(t).get("/readyz").Status == http.StatusOK })
	var list answer
	eventually(t, "the list is answered", func() bool { // the first read of the new master may be refused
		list = trader.get("/v1/signals")
		return list.Status == http.StatusOK
	})
	if n := decode[page](t, list.Body).Total; n != 2 {
		t.Errorf("%d signals are listed, want 2", n)
	}
}
