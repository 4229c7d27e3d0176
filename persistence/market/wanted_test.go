package market

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestAssetIsWantedUntilSettled(t *testing.T) {
	t.Parallel()
	m, rdb, epoch := newMarketBench(t)
	ctx := t.Context()
	for _, symbol := range []string{"ETH", "BTC", "BTC"} {
		if refused, err := m.Want(ctx, "", symbol); refused != "" || err != nil {
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
	if refused, err := m.Want(ctx, "", "ETH"); refused != "unknown" || err != nil {
		t.Errorf("%q, %v", refused, err)
	}
	wanted() // a refused asset does not wait
	if d := rdb.PTTL(ctx, m.Feed.s.MarketRefusedKey("ETH")).Val(); d <= 0 || d > time.Minute {
		t.Errorf("the refusal is kept for %s", d)
	}
	if err := m.Settle(ctx, epoch, "ETH", "", 0); err != nil {
		t.Error(err)
	}
	if refused, _ := m.Want(ctx, "", "ETH"); refused != "" {
		t.Errorf("still refused: %s", refused)
	}
	for i := range maxWanted {
		rdb.HSet(ctx, m.Feed.s.MarketWantedKey(), strconv.Itoa(i), "")
	}
	if _, err := m.Want(ctx, "", "ONE-MORE"); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("one too many: %v", err)
	}
}

func TestTickReportsGapBefore(t *testing.T) {
	t.Parallel()
	m, _, epoch := newMarketBench(t)
	ctx := t.Context()
	price := marketdata.Tick{Price: 1, Volume: 2.5, Time: 1_795_253_400_123}
	tick := marketdata.AssetTick{Asset: "BTC", Source: "binance", Tick: price}
	missing := tick
	missing.Missed = 1_795_253_400_000
	if err := m.AppendRound(ctx, epoch-1, []marketdata.AssetTick{tick}); signal.KindOf(err) != signal.KindConflict {
		t.Errorf("a former feeder writes ticks: %v", err)
	}
	storetest.Must(t, m.AppendRound(ctx, epoch, []marketdata.AssetTick{tick, missing}))
	if given, _, err := m.ReadTicks(ctx, marketdata.GivenTicks, signal.Position{}, 0); len(given) != 0 || err != nil {
		t.Errorf("they are in the stream of clients: %v, %v", given, err)
	}
	entries := ownTicks(t, m, signal.Position{})
	if len(entries) != 2 {
		t.Fatalf("%d entries", len(entries))
	}
	if entries[0].Tick == nil || *entries[0].Tick != tick || entries[1].Tick == nil || *entries[1].Tick != missing {
		t.Errorf("%+v, %+v", entries[0].Tick, entries[1].Tick)
	}
}

// TestAccountAssetLimit, both of the waiting and of the kept ones.
func TestAccountAssetLimit(t *testing.T) {
	t.Parallel()
	m, _, epoch := newMarketBench(t)
	ctx := t.Context()
	want := func(account signal.AccountID, symbol string) (string, error) { return m.Want(ctx, account, symbol) }
	for i := range maxKeptFor {
		symbol := "A" + strconv.Itoa(i)
		if refused, err := want("acc_1", symbol); refused != "" || err != nil {
			t.Fatalf("%s: %q, %v", symbol, refused, err)
		}
	}
	if _, err := want("acc_1", "MORE"); signal.KindOf(err) != signal.KindUnavailable {
		t.Errorf("one more waits: %v", err)
	}
	if refused, err := want("acc_1", "A0"); refused != "" || err != nil {
		t.Errorf("one that waits already: %q, %v", refused, err)
	}
	for i := range maxKeptFor {
		storetest.Must(t, m.Settle(ctx, epoch, "A"+strconv.Itoa(i), "", 0))
	}
	if refused, err := want("acc_1", "MORE"); refused != "share" || err != nil {
		t.Errorf("beyond the share: %q, %v", refused, err)
	}
	for _, other := range []signal.AccountID{"acc_2", ""} {
		if refused, err := want(other, "MORE"+string(other)); refused != "" || err != nil {
			t.Errorf("account %q is refused: %q, %v", other, refused, err)
		}
	}
	// An asset stays kept for its account when another account asks for it, too.
	if refused, err := want("acc_2", "A7"); refused != "" || err != nil {
		t.Errorf("another account asks for an asset: %q, %v", refused, err)
	}
	storetest.Must(t, m.Settle(ctx, epoch, "A7", "", 0))
	if refused, err := want("acc_1", "YET"); refused != "share" || err != nil {
		t.Errorf("beyond the share, after another account has asked for the same: %q, %v", refused, err)
	}
	storetest.Must(t, m.ForgetUse(ctx, "A7"))
	if refused, err := want("acc_1", "LAST"); refused != "" || err != nil {
		t.Errorf("with a place free again: %q, %v", refused, err)
	}
}

func TestAssetUseIsRecorded(t *testing.T) {
	t.Parallel()
	m, _, _ := newMarketBench(t)
	ctx := t.Context()
	early, late := time.UnixMilli(1_795_253_400_000), time.UnixMilli(1_795_253_460_000)
	for _, note := range []struct {
		at      time.Time
		symbols []string
	}{{late, []string{"BTC"}}, {early, []string{"BTC", "ETH", "SOL"}}} { // nodes are not in step
		storetest.Must(t, m.NoteUse(ctx, note.symbols, note.at))
	}
	storetest.Must(t, m.ForgetUse(ctx, "SOL"))
	uses, err := m.Uses(ctx)
	if d := cmp.Diff(map[string]time.Time{"BTC": late, "ETH": early}, uses); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestListingsAreKept(t *testing.T) {
	t.Parallel()
	m, rdb, _ := newMarketBench(t)
	ctx := t.Context()
	storetest.Must(t, m.StoreListing(ctx, "binance", []string{"BTCUSDT", "ETHUSDT"}, time.Hour))
	got, err := m.Listings(ctx, []string{"coinbase", "binance"})
	if d := cmp.Diff(map[string][]string{"binance": {"BTCUSDT", "ETHUSDT"}}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if left := rdb.PTTL(ctx, m.Feed.s.MarketListingKey("binance")).Val(); left <= 0 || left > time.Hour {
		t.Errorf("the listing is kept for %v", left)
	}
}
