package durability

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A risk of Redis' set-up is a warning of /readyz and one line of the log while it lasts.
func TestRisksOfRedisAreShown(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	const missing = "no append-only file"
	warned := func() bool {
		list, _ := s.Warnings(t)
		return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(w, missing) })
	}
	e2e.Eventually(t, "the file is missed", warned)
	e2e.Eventually(t, "the log warns of it at the start", func() bool {
		return s.Log.Line(`"level":"WARN"`, "data are at risk", missing) != ""
	})
	risks := s.LookForRisks(t.Context(), nil)
	if again := s.LookForRisks(t.Context(), risks); len(risks) != 1 || !slices.Equal(again, risks) {
		t.Errorf("the risks are %q, then %q", risks, again)
	}
	e2e.Must(t, redis.Client().ConfigSet(t.Context(), "appendonly", "yes").Err())
	if left := s.LookForRisks(t.Context(), risks); len(left) != 0 || warned() {
		t.Errorf("with a file, %q is left", left)
	}
	e2e.Must(t, redis.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	e2e.Eventually(t, "writes are refused", func() bool {
		risks = s.LookForRisks(t.Context(), nil)
		return slices.Equal(risks, []string{"Redis refuses changes: redis is full."})
	})
	e2e.Must(t, redis.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	s.AwaitReady(t)
}

// A service does not start on a Redis that evicts, and one that runs warns of it.
func TestEvictionIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	for name, value := range map[string]string{"maxmemory": "1gb", "maxmemory-policy": "volatile-lru"} {
		e2e.Must(t, redis.Client().ConfigSet(t.Context(), name, value).Err())
	}
	if risks := s.LookForRisks(t.Context(), nil); len(risks) != 1 || !strings.Contains(risks[0], "volatile-lru") {
		t.Errorf("the risks are %q", risks)
	}
	e2e.Eventually(t, "/readyz warns", func() bool {
		s.LookForRisks(t.Context(), nil) // one that began earlier may end later
		list, status := s.Warnings(t)
		return status == http.StatusOK && len(list) == 1 && strings.Contains(list[0], "Set maxmemory-policy noeviction")
	})
	s.Stop(t)
	s = e2e.Begin(t, e2e.TestConfig(t, redis.URL()))
	if <-s.Ended; s.Err == nil || !strings.Contains(s.Err.Error(), "maxmemory-policy volatile-lru") ||
		!strings.Contains(s.Err.Error(), "set noeviction") {
		t.Errorf("a start ends with %v", s.Err)
	}
}

// While replicas are missing, runs are refused and leave nothing, or are taken with a warning, as
// redis.without_replicas says. Both end by themselves.
func TestRunsWithoutReplicas(t *testing.T) {
	t.Parallel()
	for _, accept := range []bool{false, true} {
		master, replica := redistest.NewDurable(t), redistest.New(t)
		replica.Follow(master)
		c := e2e.TestConfig(t, master.URL())
		c.Redis.WaitReplicas = 1
		c.Redis.Timeout = configs.Duration(4 * time.Second) // half of it passes before replicas are missing
		if accept {
			c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
		}
		s := e2e.Start(t, c)
		trader, _ := s.Account(t)
		write := func() e2e.Answer {
			return trader.Post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`)
		}
		e2e.Eventually(t, "a run is answered", func() bool { return write().Status == http.StatusOK })
		before := trader.Signals("").Total
		replica.InStep(master)
		replica.Pause()
		write() // with refuse the outcome is not known
		if !accept {
			for range 10 {
				refused := write()
				refused.Fails(t, "unavailable")
				if !strings.Contains(refused.Body, "replicas are missing") {
					t.Errorf("a run is answered with %s", refused.Body)
				}
			}
			e2e.Eventually(t, "the warning", func() bool {
				list, status := s.Warnings(t)
				return status == http.StatusServiceUnavailable && slices.Contains(list, "replicas are missing")
			})
			trader.Get("/v1/signals").Ok(t) // what replicas have
		} else {
			for range 10 {
				write().Ok(t)
			}
			e2e.Eventually(t, "the warning", func() bool {
				list, status := s.Warnings(t)
				return status == http.StatusOK && len(list) == 1 && strings.Contains(list[0], "without them")
			})
		}
		replica.Continue()
		e2e.Eventually(t, "there is no warning", func() bool {
			list, status := s.Warnings(t)
			return status == http.StatusOK && len(list) == 0
		})
		e2e.Eventually(t, "a run is answered again", func() bool { return write().Status == http.StatusOK })
		made := trader.Signals("").Total - before
		if most := 2; !accept && made > most || accept && made < 12 {
			t.Errorf("accept %t: %d runs are listed", accept, made)
		}
		s.Stop(t)
	}
}

// What replicas lack is not shown: the repetition of a request that was refused, and the read after
// it, must not be answered as if the change were safe. What needs no record is.
func TestReadsWithoutReplicas(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]bool{"refuse": false, "accept": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica := redistest.NewDurable(t), redistest.New(t)
			replica.Follow(master)
			c := e2e.TestConfig(t, master.URL())
			c.Redis.WaitReplicas = 1
			c.Redis.Timeout = configs.Duration(8 * time.Second) // half of it passes before replicas are missing
			if accept {
				c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
			}
			s := e2e.Start(t, c)
			trader, account := s.Account(t)
			user := trader.With(s.Client(t).Login(account.Email, e2e.Password).Access)
			schedule := func() e2e.Answer {
				return trader.Post("/v1/schedules",
					`{"agent_id":"seo","assets":["standing desk"],"strategy":"blog_post","every":"1440m"}`)
			}
			var made e2e.Answer
			e2e.Eventually(t, "a schedule is made", func() bool { made = schedule(); return made.Status == http.StatusOK })
			one := "/v1/schedules/" + e2e.Decode[struct {
				ID string `json:"schedule_id"`
			}](t, made.Body).ID
			const keys, public = "/v1/auth/api-keys", "/v1/account/public"
			records := []string{one, "/v1/schedules", "/v1/jobs", "/v1/deliveries", "/v1/webhooks", "/v1/summary",
				"/v1/signals?view=full", keys, keys + "?view=true", public}
			get := func(path string) e2e.Answer {
				if strings.HasPrefix(path, keys) || path == public {
					return user.Get(path)
				}
				return trader.Get(path)
			}
			for _, path := range records {
				e2e.Eventually(t, path+" is answered", func() bool { return get(path).Status == http.StatusOK })
			}
			replica.InStep(master)
			replica.Pause()
			defer replica.Continue()
			change := func() e2e.Answer { return trader.Do(http.MethodPatch, one, `{"status":"disabled"}`) }
			for range 3 {
				if a := change(); accept {
					a.Ok(t)
				} else {
					a.Fails(t, "unavailable") // also once the schedule is disabled, so that there is no change
				}
			}
			for _, path := range records {
				if a := get(path); accept {
					a.Ok(t)
				} else {
					a.Fails(t, "unavailable")
				}
			}
			for _, path := range []string{"/v1/signals", "/v1/account", "/v1/agents", "/v1/versions"} {
				get(path).Ok(t)
			}
			replica.Continue()
			e2e.Eventually(t, "records are shown again", func() bool { return get(one).Status == http.StatusOK })
			s.Stop(t)
		})
	}
}
