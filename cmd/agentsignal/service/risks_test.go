package service

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// warnings returns the warnings of /readyz, and its status.
func (s *service) warnings(t *testing.T) ([]string, int) {
	t.Helper()
	a := s.client(t).get("/readyz")
	return decode[struct{ Warnings []string }](t, a.Body).Warnings, a.Status
}

// A risk of Redis' set-up is a warning of /readyz and one line of the log while it lasts.
func TestRisksOfRedisAreShown(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := start(t, testConfig(t, redis.URL()))
	const missing = "no append-only file"
	warned := func() bool {
		list, _ := s.warnings(t)
		return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(w, missing) })
	}
	eventually(t, "the file is missed", warned)
	eventually(t, "the log warns of it at the start", func() bool {
		return s.log.Line(`"level":"WARN"`, "data are at risk", missing) != ""
	})
	risks := s.process.lookForRisks(t.Context(), nil)
	if again := s.process.lookForRisks(t.Context(), risks); len(risks) != 1 || !slices.Equal(again, risks) {
		t.Errorf("the risks are %q, then %q", risks, again)
	}
	must(t, redis.Client().ConfigSet(t.Context(), "appendonly", "yes").Err())
	if left := s.process.lookForRisks(t.Context(), risks); len(left) != 0 || warned() {
		t.Errorf("with a file, %q is left", left)
	}
	must(t, redis.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	eventually(t, "writes are refused", func() bool {
		risks = s.process.lookForRisks(t.Context(), nil)
		return slices.Equal(risks, []string{"Redis refuses changes: redis is full."})
	})
	must(t, redis.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	s.awaitReady(t)
}

// A service does not start on a Redis that evicts, and one that runs warns of it.
func TestEvictionIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.NewDurable(t)
	s := start(t, testConfig(t, redis.URL()))
	for name, value := range map[string]string{"maxmemory": "1gb", "maxmemory-policy": "volatile-lru"} {
		must(t, redis.Client().ConfigSet(t.Context(), name, value).Err())
	}
	if risks := s.process.lookForRisks(t.Context(), nil); len(risks) != 1 || !strings.Contains(risks[0], "volatile-lru") {
		t.Errorf("the risks are %q", risks)
	}
	eventually(t, "/readyz warns", func() bool {
		s.process.lookForRisks(t.Context(), nil) // one that began earlier may end later
		list, status := s.warnings(t)
		return status == http.StatusOK && len(list) == 1 && strings.Contains(list[0], "Set maxmemory-policy noeviction")
	})
	s.stop(t)
	s = begin(t, testConfig(t, redis.URL()))
	if <-s.ended; s.err == nil || !strings.Contains(s.err.Error(), "maxmemory-policy volatile-lru") ||
		!strings.Contains(s.err.Error(), "set noeviction") {
		t.Errorf("a start ends with %v", s.err)
	}
}

// While replicas are missing, runs are refused and leave nothing, or are taken with a warning, as
// redis.without_replicas says. Both end by themselves.
func TestRunsWithoutReplicas(t *testing.T) {
	t.Parallel()
	for _, accept := range []bool{false, true} {
		master, replica := redistest.NewDurable(t), redistest.New(t)
		replica.Follow(master)
		c := testConfig(t, master.URL())
		c.Redis.WaitReplicas = 1
		c.Redis.Timeout = configs.Duration(4 * time.Second) // half of it passes before replicas are missing
		if accept {
			c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
		}
		s := start(t, c)
		trader, _ := s.account(t)
		write := func() answer {
			return trader.post("/v1/agents/seo/run", `{"asset":"standing desk","strategy":"blog_post"}`)
		}
		eventually(t, "a run is answered", func() bool { return write().Status == http.StatusOK })
		before := trader.signals("").Total
		replica.InStep(master)
		replica.Pause()
		write() // with refuse the outcome is not known
		if !accept {
			for range 10 {
				refused := write()
				refused.fails(t, "unavailable")
				if !strings.Contains(refused.Body, "replicas are missing") {
					t.Errorf("a run is answered with %s", refused.Body)
				}
			}
			eventually(t, "the warning", func() bool {
				list, status := s.warnings(t)
				return status == http.StatusServiceUnavailable && slices.Contains(list, "replicas are missing")
			})
			trader.get("/v1/signals").ok(t) // what replicas have
		} else {
			for range 10 {
				write().ok(t)
			}
			eventually(t, "the warning", func() bool {
				list, status := s.warnings(t)
				return status == http.StatusOK && len(list) == 1 && strings.Contains(list[0], "without them")
			})
		}
		replica.Continue()
		eventually(t, "there is no warning", func() bool {
			list, status := s.warnings(t)
			return status == http.StatusOK && len(list) == 0
		})
		eventually(t, "a run is answered again", func() bool { return write().Status == http.StatusOK })
		made := trader.signals("").Total - before
		if most := 2; !accept && made > most || accept && made < 12 {
			t.Errorf("accept %t: %d runs are listed", accept, made)
		}
		s.stop(t)
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
			c := testConfig(t, master.URL())
			c.Redis.WaitReplicas = 1
			c.Redis.Timeout = configs.Duration(8 * time.Second) // half of it passes before replicas are missing
			if accept {
				c.Redis.WithoutReplicas = configs.AcceptWithoutReplicas
			}
			s := start(t, c)
			trader, account := s.account(t)
			user := trader.with(s.client(t).login(account.Email, password).Access)
			schedule := func() answer {
				return trader.post("/v1/schedules",
					`{"agent_id":"seo","assets":["standing desk"],"strategy":"blog_post","every":"1440m"}`)
			}
			var made answer
			eventually(t, "a schedule is made", func() bool { made = schedule(); return made.Status == http.StatusOK })
			one := "/v1/schedules/" + decode[struct {
				ID string `json:"schedule_id"`
			}](t, made.Body).ID
			const keys = "/v1/auth/api-keys"
			records := []string{one, "/v1/schedules", "/v1/jobs", "/v1/deliveries", "/v1/webhooks", "/v1/summary",
				"/v1/signals?view=full", keys}
			get := func(path string) answer {
				if path == keys {
					return user.get(path)
				}
				return trader.get(path)
			}
			for _, path := range records {
				eventually(t, path+" is answered", func() bool { return get(path).Status == http.StatusOK })
			}
			replica.InStep(master)
			replica.Pause()
			defer replica.Continue()
			change := func() answer { return trader.do(http.MethodPatch, one, `{"status":"disabled"}`) }
			for range 3 {
				if a := change(); accept {
					a.ok(t)
				} else {
					a.fails(t, "unavailable") // also once the schedule is disabled, so that there is no change
				}
			}
			for _, path := range records {
				if a := get(path); accept {
					a.ok(t)
				} else {
					a.fails(t, "unavailable")
				}
			}
			for _, path := range []string{"/v1/signals", "/v1/account", "/v1/agents", "/v1/versions"} {
				get(path).ok(t)
			}
			replica.Continue()
			eventually(t, "records are shown again", func() bool { return get(one).Status == http.StatusOK })
			s.stop(t)
		})
	}
}
