package cluster

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// TestOwnAgentsOnThreeNodes: an agent is registered, submits, is asked, gets alerts and ends its signals on different nodes,
// most of which do not own the account's partition.
func TestOwnAgentsOnThreeNodes(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		redis := redistest.New(t)
		useOwnAgents(t, redis.URL(), redis.Client())
	})
	t.Run("Redis Cluster", func(t *testing.T) {
		t.Parallel()
		redis := redistest.NewCluster(t, 3)
		useOwnAgents(t, redis.URL(), redis.Client())
	})
}

func useOwnAgents(t *testing.T, url string, rdb goredis.Cmdable) {
	t.Helper()
	var nodes []*e2e.Service
	for range 3 {
		c := clusterConfig(t, url)
		c.Partitions, c.Market.Source, c.Market.Speed, c.Auth.Registration = 4, "simulated", 1, "open"
		c.Webhooks.AllowedNetworks = []string{e2e.Loopback}
		nodes = append(nodes, e2e.Start(t, c))
	}
	for _, n := range nodes {
		n.AwaitPrices(t, "BTC", signal.M1)
		n.AwaitPrices(t, "ETH", signal.M1)
	}
	user, _, _ := nodes[0].User(t)
	k := nodes[0].Store().Client
	owner := -1
	e2e.Eventually(t, "a node owns the account's partition", func() bool {
		lease, _ := rdb.Get(t.Context(), k.OwnerKey(k.Partition(accountOf(user)))).Result() // fails without an owner
		id, _, _ := strings.Cut(lease, " ")
		owner = slices.IndexFunc(nodes, func(n *e2e.Service) bool { return n.NodeID() == id })
		return owner >= 0
	})
	// The user at the owner and at the two others.
	at := func(n int) *e2e.Client { return user.At(nodes[(owner+n)%3].URL) }
	everywhere := func(what string, is func(c *e2e.Client) bool) {
		t.Helper()
		for n := range nodes {
			e2e.Eventually(t, what, func() bool { return is(at(n)) })
		}
	}

	// Each step is made on another node, and follows the one before at once.
	at(1).Post("/v1/agents", `{"id":"my_agent","name":"My agent","category":"trading","strategies":["cross"],
		"defaults":{"timeframe":"1m"}}`).Want(t, http.StatusCreated)
	submit := func(n int, reference string) e2e.Answer {
		return at(n).Post("/v1/agents/my_agent/signals",
			fmt.Sprintf(`{"asset":"BTC","strategy":"cross","direction":"long","reference":%q}`, reference))
	}
	made := e2e.Decode[e2e.WireSignal](t, submit(2, "one").Ok(t).Body)
	if again := e2e.Decode[e2e.WireSignal](t, submit(1, "one").Ok(t).Body); again.ID != made.ID {
		t.Errorf("the same reference has the signal %s, then %s", made.ID, again.ID)
	}
	at(0).Close(made.ID)
	everywhere("it has ended", func(c *e2e.Client) bool { return c.State(made.ID).Status == "closed" })
	if got := at(1).State(made.ID); *got.Reason != "agent_exit" {
		t.Errorf("closed as %s", e2e.JsonOf(t, got))
	}
	second := e2e.Decode[e2e.WireSignal](t, submit(0, "two").Ok(t).Body)
	at(2).Close(second.ID)
	everywhere("it has ended", func(c *e2e.Client) bool { return c.State(second.ID).Status == "closed" })

	// An agent that is asked, by the nodes that do not own it and by a job that any node takes.
	endpoint := e2e.NewHookEndpoint(t, func(w http.ResponseWriter, _ e2e.HookRequest) {
		io.WriteString(w, `{"direction":"short"}`)
	})
	at(2).Post("/v1/agents", `{"id":"asked","name":"Asked","category":"trading","strategies":["cross"],
		"defaults":{"timeframe":"1m"},"endpoint":{"url":"`+endpoint.URL+`"}}`).Want(t, http.StatusCreated)
	total := 2
	for n := range nodes {
		a := at(n).Post("/v1/agents/asked/run", e2e.RunBody("BTC", "cross")).Ok(t)
		total++
		x := e2e.Decode[e2e.WireSignal](t, a.Body)
		if got := endpoint.Await(t, n+1)[n]; got.Event() != a.Header.Get("X-Run-Id") || x.Direction != "short" {
			t.Errorf("node %d asked as %s for %s", n, got.Event(), a.Body)
		}
		everywhere("its signal is known", func(c *e2e.Client) bool { return c.State(x.ID).Status == "open" })
	}
	job := e2e.Decode[e2e.WireJob](t, at(1).Post("/v1/agents/asked/run", e2e.RunBody("BTC", "cross", `"async":true`)).Ok(t).Body)
	at(2).Completed(job.ID)
	total++

	// Alerts by one token on any node.
	in := e2e.AddIntake(t, at(2), "my_agent")
	alert := func(n int, text string) e2e.IntakeAnswer {
		t.Helper()
		return e2e.Decode[e2e.IntakeAnswer](t, e2e.SendAlert(at(n), in, text).Ok(t).Body)
	}
	bought := alert(1, "buy ETH")
	total++
	if again := alert(0, "buy ETH"); again.ID != bought.ID {
		t.Errorf("the same alert on another node has the signal %s, then %s", bought.ID, again.ID)
	}
	if open := alert(2, "position=long symbol=ETH"); open.Reason != "already_open" {
		t.Errorf("%+v", open)
	}
	other := alert(2, "buy ETH note=2")
	total++
	turned := alert(1, "position=short symbol=ETH")
	total++
	if flat := alert(0, "flat ETH"); flat.Reason != "closed" || !slices.Equal(flat.Closed, []string{turned.ID}) {
		t.Errorf("%+v", flat)
	}
	for _, id := range []string{bought.ID, other.ID, turned.ID} {
		everywhere("it has ended", func(c *e2e.Client) bool { return c.State(id).Status == "closed" })
	}
	if list := e2e.IntakeRequests(t, at(1), "my_agent", in); len(list) != 5 {
		t.Errorf("%d requests: %+v", len(list), list)
	}
	everywhere("all signals are listed", func(c *e2e.Client) bool { return c.Signals("").Total == total })

	// What is revoked or removed on one node is so on all.
	at(1).Do("DELETE", "/v1/agents/my_agent/intakes/"+in.ID, "").Want(t, http.StatusNoContent)
	for n := range nodes {
		e2e.SendAlert(at(n), in, "buy ETH note=3").Fails(t, "not_found")
	}
	at(2).Do("DELETE", "/v1/agents/my_agent", "").Want(t, http.StatusNoContent)
	for n := range nodes {
		submit(n, "three").Fails(t, "not_found")
	}
}
