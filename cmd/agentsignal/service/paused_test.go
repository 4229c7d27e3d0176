package service

import (
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// positions returns the stored positions of all partitions, and the epochs.
func (n nodes) positions(tb testing.TB) (positions []signal.Position, epochs []int64) {
	tb.Helper()
	rdb, k := n.redis.Client(), n.second.process.store.Client
	for p := range k.Partitions() {
		text, _ := rdb.Get(tb.Context(), k.PositionKey(p)).Result() // fails if none is stored
		position, _ := signal.ParsePosition(text)
		positions = append(positions, position)
		text, err := rdb.Get(tb.Context(), k.EpochKey(p)).Result()
		must(tb, err)
		epoch, err := strconv.ParseInt(text, 10, 64)
		must(tb, err)
		epochs = append(epochs, epoch)
	}
	return positions, epochs
}

// A node is paused until its leases and its announcement have expired, another one has its work, and what
// it has not read is trimmed from the logs.
func TestANodePausedForLong(t *testing.T) {
	t.Parallel()
	n := startNodes(t, "stream")
	owned := func() int { return n.second.process.joined.Load().Owned() }
	eventually(t, "both own partitions", func() bool { return owned() > 0 && owned() < 16 })
	node, rdb, k := n.firstID(t), n.redis.Client(), n.second.process.store.Client
	trader := n.accountOf(t, node)
	account := decode[struct {
		ID signal.AccountID `json:"account_id"`
	}](t, trader.get("/v1/account").Body).ID
	p := k.Partition(account)
	end := newHookEndpoint(t, nil)
	hook := trader.hook(end.url, "signal.created")
	here := trader.at(n.first.url)
	// A coin, whose prices are too old after half a minute: the pause makes them so.
	prices := newMarket(t, rdb)
	prices.hours("BTC", 400)
	trade := func(age time.Duration) {
		prices.add("market:ticks", []any{"asset", "BTC", "price", "101.25",
			"time", time.Now().Add(-age).UnixMilli()})
	}
	eventually(t, "the coin has a price", func() bool {
		trade(22 * time.Second)
		return n.here.tryRun("BTC", "breakout").Status == http.StatusOK
	})
	live := here.dial()
	want := map[string]int{}
	made := here.run("ACME", "momentum").ID
	want[made]++
	live.signals(made)
	here.lists("", 1, made)
	trader.awaitTotal(hook, "status=succeeded", 1)

	n.first.signal(syscall.SIGSTOP)
	stopped := time.Now()
	eventually(t, "the other node has everything", func() bool {
		expired := rdb.ZScore(t.Context(), k.NodesKey(), node+" assigned").Err() != nil
		return owned() == 16 && expired
	})
	for range 5 {
		made = trader.run("ACME", "momentum").ID
		want[made]++
	}
	trader.awaitTotal(hook, "status=succeeded", len(want))
	rdb.HDel(t.Context(), k.ProcessesKey(), node)
	must(t, rdb.XTrimMaxLen(t.Context(), k.EventsKey(p), 1).Err())
	before, epochs := n.positions(t)
	eventually(t, "the pause is long", func() bool { return time.Since(stopped) > 9*time.Second })
	n.first.signal(syscall.SIGCONT)

	// Requests that arrive while it wakes are answered or may be repeated.
	answered := func(a answer) (ran bool) {
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
		coin = answered(n.here.tryRun("BTC", "breakout")) || coin
		a := here.tryRun("ACME", "breakout")
		if answered(a) {
			ran = true
			want[decode[wireSignal](t, a.Body).ID]++
		}
	}
	if code := live.closing(); code != 1001 {
		t.Errorf("a stream that has missed events is closed with %d", code)
	}
	if d := here.dial().subscribe(`"last_event_id":"` + live.last() + `"`); d.Resumed == nil || d.Resumed.Complete {
		t.Errorf("resumed behind an event that is trimmed: %+v", d.Resumed)
	}
	eventually(t, "it has joined again", func() bool { return owned() < 16 })
	last := here.run("ACME", "mean_reversion").ID
	want[last]++
	for _, c := range []*client{here, trader} {
		c.lists("", len(want), last)
	}
	trader.awaitTotal(hook, "status=succeeded", len(want))
	got := signalsIn(t, end.got())
	if n.second.log.Line("partition is lost") != "" { // requests in flight may have been repeated
		for id := range got {
			got[id] = 1
		}
	}
	if !sameCounts(got, want) {
		t.Errorf("the endpoint got %v, want %v", got, want)
	}
	after, later := n.positions(t)
	for p := range after {
		if after[p].Compare(before[p]) < 0 || later[p] < epochs[p] {
			t.Errorf("partition %d went back from %v, epoch %d to %v, epoch %d", p, before[p], epochs[p], after[p], later[p])
		}
	}
}
