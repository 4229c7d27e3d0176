package cluster

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// A node is paused until its leases and its announcement have expired, another one has its work, and what
// it has not read is trimmed from the logs.
func TestANodePausedForLong(t *testing.T) {
	t.Parallel()
	n := e2e.StartNodes(t, "stream")
	owned := func() int { return n.Second.Partitions().Owned() }
	e2e.Eventually(t, "both own partitions", func() bool { return owned() > 0 && owned() < 16 })
	node, rdb, k := n.FirstID(t), n.Redis.Client(), n.Second.Store().Client
	trader := n.AccountOf(t, node)
	account := e2e.Decode[struct {
		ID signal.AccountID `json:"account_id"`
	}](t, trader.Get("/v1/account").Body).ID
	p := k.Partition(account)
	end := e2e.NewHookEndpoint(t, nil)
	hook := trader.Hook(end.URL, "signal.created")
	here := trader.At(n.First.URL)
	// A coin, whose prices are too old after half a minute: the pause makes them so.
	prices := e2e.NewMarket(t, rdb)
	prices.Hours("BTC", 400)
	trade := func(age time.Duration) {
		prices.Add("market:ticks", []any{"asset", "BTC", "price", "101.25",
			"time", time.Now().Add(-age).UnixMilli()})
	}
	e2e.Eventually(t, "the coin has a price", func() bool {
		trade(22 * time.Second)
		return n.Here.TryRun("BTC", "breakout").Status == http.StatusOK
	})
	live := here.Dial()
	want := map[string]int{}
	made := here.Run("ACME", "momentum").ID
	want[made]++
	live.Signals(made)
	here.Lists("", 1, made)
	trader.AwaitTotal(hook, "status=succeeded", 1)

	n.First.Signal(syscall.SIGSTOP)
	stopped := time.Now()
	e2e.Eventually(t, "the other node has everything", func() bool {
		expired := rdb.ZScore(t.Context(), k.NodesKey(), node+" assigned").Err() != nil
		return owned() == 16 && expired
	})
	for range 5 {
		made = trader.Run("ACME", "momentum").ID
		want[made]++
	}
	trader.AwaitTotal(hook, "status=succeeded", len(want))
	rdb.HDel(t.Context(), k.ProcessesKey(), node)
	e2e.Must(t, rdb.XTrimMaxLen(t.Context(), k.EventsKey(p), 1).Err())
	before, epochs := n.Positions(t)
	e2e.Eventually(t, "the pause is long", func() bool { return time.Since(stopped) > 9*time.Second })
	n.First.Signal(syscall.SIGCONT)

	// Requests that arrive while it wakes are answered or may be repeated.
	answered := func(a e2e.Answer) (ran bool) {
		switch a.Status {
		case http.StatusOK:
			return true
		case http.StatusServiceUnavailable:
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("a run is refused without a time to come back: %s", a.Body)
			}
		default:
			t.Fatalf("a run is answered with %d %s", a.Status, a.Body)
		}
		return false
	}
	ran, coin := false, false
	for i := 0; i < 20 || !ran || !coin; i++ {
		trade(0) // it is never too old, for a node that reads
		coin = answered(n.Here.TryRun("BTC", "breakout")) || coin
		a := here.TryRun("ACME", "breakout")
		if answered(a) {
			ran = true
			want[e2e.Decode[e2e.WireSignal](t, a.Body).ID]++
		}
	}
	if code := live.Closing(); code != 1001 {
		t.Errorf("a stream that has missed events is closed with %d", code)
	}
	if d := here.Dial().Subscribe(`"last_event_id":"` + live.Last() + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("resumed behind an event that is trimmed: %+v", d.Resumed)
	}
	e2e.Eventually(t, "it has joined again", func() bool { return owned() < 16 })
	last := here.Run("ACME", "mean_reversion").ID
	want[last]++
	for _, c := range []*e2e.Client{here, trader} {
		c.Lists("", len(want), last)
	}
	trader.AwaitTotal(hook, "status=succeeded", len(want))
	got := e2e.SignalsIn(t, end.Got())
	if n.Second.Log.Line("partition is lost") != "" { // requests in flight may have been repeated
		for id := range got {
			got[id] = 1
		}
	}
	if !e2e.SameCounts(got, want) {
		t.Errorf("the endpoint got %v, want %v", got, want)
	}
	after, later := n.Positions(t)
	for p := range after {
		if after[p].Compare(before[p]) < 0 || later[p] < epochs[p] {
			t.Errorf("partition %d went back from %v, epoch %d to %v, epoch %d", p, before[p], epochs[p], after[p], later[p])
		}
	}
}
