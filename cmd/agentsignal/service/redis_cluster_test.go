package service

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheServiceWorksOnARedisCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, 3)
	rdb := redis.Client()
	c := testConfig(t, redis.URL())
	c.Partitions = 4
	s := start(t, c)
	eventually(t, "all partitions are owned", func() bool { return s.process.joined.Load().Owned() == c.Partitions })
	newMarket(t, rdb).open("ACME", "101.25")
	s.awaitTrade(t, "ACME", 101.25)

	// One account in each partition.
	accounts := map[int]*client{}
	owners := map[int]signal.AccountID{}
	for len(accounts) < c.Partitions {
		trader, a := s.account(t)
		p := s.process.store.Client.Partition(a.ID)
		accounts[p], owners[p] = trader, a.ID
	}
	use := func(p, before int) {
		t.Helper()
		trader := accounts[p]
		live := trader.dial()
		made := trader.run("ACME", "momentum")
		trader.lists("limit=1", before+1, made.ID)
		trader.get("/v1/signals/" + made.ID).ok(t)
		job := trader.completed(trader.submit("ACME", "breakout").ID)
		live.signals(made.ID, job.Signal.ID)
		trader.dial().resumes(live, made.ID, 1)
	}
	for p := range c.Partitions {
		use(p, 0)
	}
	key := "Idempotency-Key: k"
	first := accounts[0].post("/v1/agents/trading/run", runBody("ACME", "momentum"), key).ok(t)
	if again := accounts[0].post("/v1/agents/trading/run", runBody("ACME", "momentum"), key); again.Body != first.Body {
		t.Errorf("a repeated request is answered with %s, first it was %s", again.Body, first.Body)
	}

	// A partition moves to another node under the running service.
	redis.Move(s.process.store.Client.EventsKey(1))
	accounts[1].awaitRun("ACME", "momentum")
	use(1, accounts[1].signals("").Total)

	// A deleted account loses its streams, its keys and then its records.
	gone := accounts[2]
	live := gone.dial()
	must(t, s.process.credentials.DeleteAccount(t.Context(), owners[2]))
	live.closes(4403)
	gone.get("/v1/account").fails(t, "invalid_token")
	eventually(t, "its open signals and jobs are erased", func() bool {
		k := s.process.store.Client.Keys
		left, err := rdb.Exists(t.Context(), k.OpenKey(2), k.JobsOfKey(2, owners[2])).Result()
		return err == nil && left == 0
	})

	// What was there is there after a restart.
	want := accounts[1].allSignals()
	s.stop(t)
	s = start(t, c)
	if got := accounts[1].at(s.url).allSignals(); len(got) != len(want) || got[0].ID != want[0].ID {
		t.Errorf("after a restart %d signals are listed, before %d", len(got), len(want))
	}
}
