package webhooks

import (
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

func TestTwoNodesDeliverWhatHappensOnBoth(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	n := e2e.StartNodes(t, "stream")
	e2e.Eventually(t, "both own partitions", func() bool {
		owned := n.Second.Partitions().Owned()
		return owned > 0 && owned < n.Second.Store().Client.Partitions()
	})
	first := n.FirstID(t)
	traders := []*e2e.Client{n.AccountOf(t, first), n.AccountOf(t, n.Second.NodeID())}
	ends, hooks := []*e2e.HookEndpoint{e2e.NewHookEndpoint(t, nil), e2e.NewHookEndpoint(t, nil)}, make([]e2e.WireWebhook, 2)
	want := []map[string]int{{}, {}}
	for i, c := range traders {
		hooks[i] = c.At([]string{n.Second.URL, n.First.URL}[i]).Hook(ends[i].URL) // at the node that is not to deliver
		for j := range 6 {
			ran := c
			if j%2 == 0 {
				ran = c.At(n.First.URL)
			}
			want[i][ran.Run("ACME", "momentum").ID]++
		}
	}
	for i, end := range ends {
		all := end.Await(t, len(want[i]))
		for _, a := range all {
			a.Verify(t, hooks[i].Secret)
		}
		traders[i].AwaitTotal(hooks[i], "status=succeeded", len(want[i]))
		if n.First.Log.Line("partition is lost")+n.Second.Log.Line("partition is lost") != "" {
			continue // on a very busy machine, requests in flight may be repeated
		}
		if got := e2e.SignalsIn(t, end.Got()); !e2e.SameCounts(got, want[i]) {
			t.Errorf("endpoint %d got %v, want %v", i, got, want[i])
		}
	}

	// The owner is killed with requests in flight and others waiting.
	trader, hanging := traders[0], e2e.NewHangingEndpoint(t)
	held := trader.Hook(hanging.URL, "webhook.test")
	ids := map[string]bool{}
	for range 12 {
		ids[trader.Test(held).ID] = true
	}
	hanging.Await(t, 1)
	n.First.Kill()
	hanging.Release()
	last := trader.Run("ACME", "breakout")
	e2e.Eventually(t, "all tests arrive from the other node", func() bool {
		return trader.Total(held, "status=succeeded") == len(ids)
	})
	for id, attempts := range byDelivery(t, hanging.Got()) {
		if !ids[id] {
			t.Errorf("delivery %s is of no test", id)
		}
		for _, a := range attempts {
			a.Verify(t, held.Secret)
		}
	}
	e2e.Eventually(t, "the signal of after the kill arrives",
		func() bool { return e2e.SignalsIn(t, ends[0].Got())[last.ID] > 0 })
	if p := trader.Get("/v1/webhooks").Ok(t); e2e.Decode[struct{ Total int }](t, p.Body).Total != 2 {
		t.Errorf("the webhooks are %s", p.Body)
	}
}
