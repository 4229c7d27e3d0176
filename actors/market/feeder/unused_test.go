package feeder

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// An asset that is not needed is given up, to make room for others, and taken up again when it is asked for.
func TestUnneededAssetIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance", "BTCUSDT", "DOGEUSDT")
	m, _ := b.start()
	for _, asset := range []string{"BTC", "DOGE"} {
		if _, err := m.Series(t.Context(), asset, signal.H1); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(asset string) bool {
		_, _, err := b.store.Asset(t.Context(), asset)
		if err != nil && signal.KindOf(err) != signal.KindNotFound {
			t.Fatal(err)
		}
		return err == nil
	}
	b.Add(source.KeepUnused - 2*source.UseEvery)
	must(t, b.store.NoteUse(t.Context(), []string{"BTC"}, b.Now()))
	b.Add(3 * source.UseEvery)
	markettest.Eventually(t, "DOGE is given up", func() bool { return !kept("DOGE") })
	if !kept("BTC") {
		t.Error("BTC is given up although it is needed")
	}
	markettest.Eventually(t, "its bars are removed", func() bool {
		bars, _, err := b.store.Bars(t.Context(), "DOGE", signal.H1)
		return err == nil && len(bars) == 0
	})
	markettest.Eventually(t, "the exchange is no longer followed", func() bool { return !b.Follows("DOGEUSDT") })
	b.await(m, "it is taken up again", "DOGE", signal.H1, func(s market.Snapshot) bool { return len(s.Bars) > 900 })
}

func TestUnneededAssetMakesRoom(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance", "BTCUSDT", "DOGEUSDT", "SOLUSDT", "PEPEUSDT", "LINKUSDT")
	b.o.maxKept = 3
	m, _ := b.start()
	asked := func(asset string) error {
		_, err := m.Series(t.Context(), asset, signal.H1)
		return err
	}
	for _, asset := range []string{"DOGE", "SOL", "BTC"} {
		must(t, asked(asset))
	}
	e := markettest.RunError(t, asked("LINK"))
	full := e.RetryAfter == source.FullFor && strings.Contains(e.Message, "too many assets")
	if e.Code != signal.DataUnavailable || !full {
		t.Errorf("one asset too many: %v", e)
	}
	for asset, unused := range map[string]time.Duration{"SOL": source.KeepFull, "BTC": 0} {
		at := b.Now().Add(source.KeepFull + time.Minute - unused)
		must(t, b.store.NoteUse(t.Context(), []string{asset}, at))
	}
	b.Add(source.KeepFull + time.Minute)
	if err := asked("PEPE"); err != nil {
		t.Errorf("no asset is given up: %v", err)
	}
	for asset, want := range map[string]bool{"BTC": true, "SOL": true, "PEPE": true, "DOGE": false} {
		if _, _, err := b.store.Asset(t.Context(), asset); (err == nil) != want {
			t.Errorf("%s: %v", asset, err)
		}
	}
}

// Every node knows the listings, so that a misspelt coin is refused before a run.
func TestListingsAreReadOnEveryNode(t *testing.T) {
	t.Parallel()
	b := newExchangeBench(t, "binance,coinbase", "BTCUSDT", "DOGEUSDT", "ETHBTC")
	m := b.market(market.Options{Sources: "binance,coinbase"})
	if _, ok := m.Assets.Check(t.Context(), "DOGGE"); !ok {
		t.Error("a coin is refused while no listing is known")
	}
	b.feed(b.o)
	markettest.Eventually(t, "the listings", func() bool {
		stored, err := b.store.Listings(t.Context(), []string{"binance", "coinbase"})
		return err == nil && len(stored) == 2
	})
	m = b.market(market.Options{Sources: "binance,coinbase"}) // which reads them at once
	markettest.Eventually(t, "the listings are read", func() bool {
		_, ok := m.Assets.Check(t.Context(), "DOGGE")
		return !ok
	})
	for asset, want := range map[string]bool{
		"DOGE": true, "doge/usd": true, "DOGGE": false, "ETHB": false, "BTC": true, "SOL": false,
	} {
		nearest, ok := m.Assets.Check(t.Context(), m.Assets.Name(asset))
		if ok != want || asset == "DOGGE" && !slices.Equal(nearest, []string{"DOGE"}) {
			t.Errorf("%s: %v, nearest %v", asset, ok, nearest)
		}
	}
}

// A delivery of an asset that was given up is dropped. Otherwise the asset would have a record and no feed.
func TestLateDeliveryIsDropped(t *testing.T) {
	t.Parallel()
	c, _ := minuteClock()
	store := &stepStore{}
	lead := newStreamLeadership(t, store, c)
	lead.kept.feeds = &feeds{kept: make(map[string]*keptAsset)}
	former := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
	record := &marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1}
	for name, d := range map[string]source.Delivery{
		"a history": {Feed: former, Record: record, Reset: true},
		"an end":    {Feed: former, Err: context.Canceled}, // the store would panic
	} {
		if err := lead.kept.deliver(t.Context(), &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(lead.assets.of) != 0 || store.writes != 0 {
		t.Errorf("%d assets, %d writes", len(lead.assets.of), store.writes)
	}
}
