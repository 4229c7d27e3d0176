package persistence

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestAnAssetIsWantedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s, err := Open(Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m, ctx := NewMarket(s), t.Context()
	epoch, err := m.TakeLease(ctx, "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range []string{"ETH", "BTC", "BTC"} {
		if refused, err := m.Want(ctx, symbol); refused != "" || err != nil {
			t.Fatalf("%q, %v", refused, err)
		}
	}
	wanted := func(want ...string) {
		t.Helper()
		if got, err := m.Wanted(ctx); !slices.Equal(got, want) || err != nil {
			t.Errorf("wanted are %v, %v; want %v", got, err, want)
		}
	}
	wanted("BTC", "ETH")
	if err := m.Settle(ctx, epoch-1, "BTC", "", 0); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("a former feeder settles: %v", err)
	}
	wanted("BTC", "ETH")
	if err := m.Settle(ctx, epoch, "BTC", "", 0); err != nil {
		t.Error(err)
	}
	if err := m.Settle(ctx, epoch, "ETH", "unknown", time.Minute); err != nil {
		t.Error(err)
	}
	wanted()
	if refused, err := m.Want(ctx, "ETH"); refused != "unknown" || err != nil {
		t.Errorf("%q, %v", refused, err)
	}
	wanted() // who is refused does not wait
	if d := server.Client().PTTL(ctx, marketRefusedKey("ETH")).Val(); d <= 0 || d > time.Minute {
		t.Errorf("the refusal is kept for %s", d)
	}
	if err := m.Settle(ctx, epoch, "ETH", "", 0); err != nil {
		t.Error(err)
	}
	if refused, _ := m.Want(ctx, "ETH"); refused != "" {
		t.Errorf("still refused: %s", refused)
	}
	for i := range maxWanted {
		server.Client().SAdd(ctx, marketWantedKey(), i)
	}
	if _, err := m.Want(ctx, "ONE-MORE"); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("one too many: %v", err)
	}
}

func TestATickSaysSinceWhenSomeAreMissing(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s, err := Open(Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m, ctx := NewMarket(s), t.Context()
	tick := signal.AssetTick{Asset: "BTC", Source: "binance", Tick: signal.Tick{Price: 1, Time: 1_795_253_400_123}}
	missing := tick
	missing.Missed = 1_795_253_400_000
	epoch, err := m.TakeLease(ctx, "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AppendTicks(ctx, epoch-1, []signal.AssetTick{tick}); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("a former feeder writes ticks: %v", err)
	}
	if err := m.AppendTicks(ctx, epoch, []signal.AssetTick{tick, missing}); err != nil {
		t.Fatal(err)
	}
	if given, err := m.ReadTicks(ctx, signal.GivenTicks, signal.Position{}, 0); len(given) != 0 || err != nil {
		t.Errorf("they stand where anybody writes: %v, %v", given, err)
	}
	entries, err := m.ReadTicks(ctx, signal.OwnTicks, signal.Position{}, 0)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	want := map[string]string{"asset": "BTC", "source": "binance", "price": "1", "volume": "0", "time": "1795253400123"}
	if d := cmp.Diff(want, entries[0].Fields); d != "" {
		t.Errorf("a tick (-want +got):\n%s", d)
	}
	if _, there := entries[0].Fields["missed"]; there || entries[1].Fields["missed"] != "1795253400000" {
		t.Errorf("%v, %v", entries[0].Fields, entries[1].Fields)
	}
}
