package cluster

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestTheServiceWorksOnARedisCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.NewCluster(t, 3)
	rdb := redis.Client()
	c := e2e.TestConfig(t, redis.URL())
	c.Partitions = 4
	s := e2e.Start(t, c)
	e2e.Eventually(t, "all partitions are owned", func() bool { return s.Partitions().Owned() == c.Partitions })
	e2e.NewMarket(t, rdb).Open("ACME", "101.25")
	s.AwaitTrade(t, "ACME", 101.25)

	// One account in each partition.
	accounts := map[int]*e2e.Client{}
	owners := map[int]signal.AccountID{}
	for len(accounts) < c.Partitions {
		trader, a := s.Account(t)
		p := s.Store().Client.Partition(a.ID)
		accounts[p], owners[p] = trader, a.ID
	}
	use := func(p, before int) {
		t.Helper()
		trader := accounts[p]
		live := trader.Dial()
		made := trader.Run("ACME", "momentum")
		trader.Lists("limit=1", before+1, made.ID)
		trader.Get("/v1/signals/" + made.ID).Ok(t)
		job := trader.Completed(trader.Submit("ACME", "breakout").ID)
		live.Signals(made.ID, job.Signal.ID)
		trader.Dial().Resumes(live, made.ID, 1)
	}
	for p := range c.Partitions {
		use(p, 0)
	}
	key := "Idempotency-Key: k"
	first := accounts[0].Post("/v1/agents/trading/run", e2e.RunBody("ACME", "momentum"), key).Ok(t)
	if again := accounts[0].Post("/v1/agents/trading/run", e2e.RunBody("ACME", "momentum"), key); again.Body != first.Body {
		t.Errorf("a repeated request is answered with %s, first it was %s", again.Body, first.Body)
	}

	// An agent ends its signal by the first trade after its request.
	prices := e2e.NewMarket(t, rdb)
	for p := range c.Partitions {
		own := s.OwnSignal(t, owners[p], func(x *signal.Signal) {
			x.Levels = &signal.Levels{Entry: 101.25, Stop: 90, Target: 115}
		})
		if got := accounts[p].Close(own); got.Status != "open" || got.Requested == nil {
			t.Errorf("without a trade it is %s", e2e.JsonOf(t, got))
		}
		prices.Tick("ACME", "101.25")
		e2e.Eventually(t, "it is closed", func() bool { return accounts[p].State(own).Status == "closed" })
		if got := accounts[p].State(own); *got.Reason != "agent_exit" || *got.Exit != 101.25 {
			t.Errorf("closed as %s", e2e.JsonOf(t, got))
		}
	}

	// A partition moves to another node under the running service.
	redis.Move(s.Store().Client.EventsKey(1))
	accounts[1].AwaitRun("ACME", "momentum")
	use(1, accounts[1].Signals("").Total)

	// A deleted account loses its streams, its keys and then its records.
	gone := accounts[2]
	live := gone.Dial()
	e2e.Must(t, s.Credentials().Accounts.DeleteAccount(t.Context(), owners[2]))
	live.Closes(4403)
	gone.Get("/v1/account").Fails(t, "invalid_token")
	e2e.Eventually(t, "its open signals and jobs are erased", func() bool {
		k := s.Store().Client.Keys
		left, err := rdb.Exists(t.Context(), k.OpenKey(2), k.JobsOfKey(2, owners[2])).Result()
		return err == nil && left == 0
	})

	// What was there is there after a restart.
	want := accounts[1].AllSignals()
	s.Stop(t)
	s = e2e.Start(t, c)
	if got := accounts[1].At(s.URL).AllSignals(); len(got) != len(want) || got[0].ID != want[0].ID {
		t.Errorf("after a restart %d signals are listed, before %d", len(got), len(want))
	}
}
