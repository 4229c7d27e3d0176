package service

import (
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// owner returns the node that owns the partition of an account, or "".
func (n nodes) owner(tb testing.TB, account signal.AccountID) string {
	tb.Helper()
	store := n.second.process.store.Client
	key := store.OwnerKey(store.Partition(account))
	lease, _ := n.redis.Client().Get(tb.Context(), key).Result() // fails if no node is the owner
	node, _, _ := strings.Cut(lease, " ")
	return node
}

// accountOf returns a client of the second node for a new account whose partition the
// node owns.
func (n nodes) accountOf(tb testing.TB, node string) (c *client) {
	tb.Helper()
	eventually(tb, "an account is one of the node "+node, func() bool {
		var a credential.Account
		c, a = n.second.account(tb)
		return n.owner(tb, a.ID) == node
	})
	return c
}

func TestTwoNodesDeliverWhatHappensOnBoth(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream")
	eventually(t, "both own partitions", func() bool {
		owned := n.second.process.joined.Load().Owned()
		return owned > 0 && owned < n.second.process.store.Client.Partitions()
	})
	first := n.firstID(t)
	traders := []*client{n.accountOf(t, first), n.accountOf(t, n.second.process.node)}
	ends, hooks := []*hookEndpoint{newHookEndpoint(t, nil), newHookEndpoint(t, nil)}, make([]wireWebhook, 2)
	want := []map[string]int{{}, {}}
	for i, c := range traders {
		hooks[i] = c.at([]string{n.second.url, n.first.url}[i]).hook(ends[i].url) // at the node that is not to deliver
		for j := range 6 {
			ran := c
			if j%2 == 0 {
				ran = c.at(n.first.url)
			}
			want[i][ran.run("ACME", "momentum").ID]++
		}
	}
	for i, end := range ends {
		all := end.await(t, len(want[i]))
		for _, a := range all {
			a.verify(t, hooks[i].Secret)
		}
		traders[i].awaitTotal(hooks[i], "status=succeeded", len(want[i]))
		if n.first.log.Line("partition is lost")+n.second.log.Line("partition is lost") != "" {
			continue // on a very busy machine, requests in flight may be repeated
		}
		if got := signalsIn(t, end.got()); !sameCounts(got, want[i]) {
			t.Errorf("endpoint %d got %v, want %v", i, got, want[i])
		}
	}

	// The owner is killed with requests in flight and others waiting.
	trader, hanging := traders[0], newHangingEndpoint(t)
	held := trader.hook(hanging.url, "webhook.test")
	ids := map[string]bool{}
	for range 12 {
		ids[trader.test(held).ID] = true
	}
	hanging.await(t, 1)
	n.first.kill()
	hanging.release()
	last := trader.run("ACME", "breakout")
	eventually(t, "all tests arrive from the other node", func() bool {
		return trader.total(held, "status=succeeded") == len(ids)
	})
	for id, attempts := range byDelivery(t, hanging.got()) {
		if !ids[id] {
			t.Errorf("delivery %s is of no test", id)
		}
		for _, a := range attempts {
			a.verify(t, held.Secret)
		}
	}
	eventually(t, "the signal of after the kill arrives",
		func() bool { return signalsIn(t, ends[0].got())[last.ID] > 0 })
	if p := trader.get("/v1/webhooks").ok(t); decode[struct{ Total int }](t, p.Body).Total != 2 {
		t.Errorf("the webhooks are %s", p.Body)
	}
}
