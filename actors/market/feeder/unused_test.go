package feeder

import (
	"context"
	"errors"
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

// TestAnAssetThatNobodyNeedsIsForgotten: else the bound of assets would be reached once,
// and for good. Who asks for it again gets it again.
func TestAnAssetThatNobodyNeedsIsForgotten(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT", "DOGEUSDT")
	m := b.market(market.Options{Sources: "binance"})
	b.feed(Options{Sources: "binance", Real: exchangeOptions(x)})
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
	c.Add(source.KeepUnused - 2*source.UseEvery)
	if err := b.store.NoteUse(t.Context(), []string{"BTC"}, c.Now()); err != nil {
		t.Fatal(err)
	}
	c.Add(3 * source.UseEvery)
	markettest.Eventually(t, "DOGE is forgotten", func() bool { return !kept("DOGE") })
	if !kept("BTC") {
		t.Error("BTC is forgotten, which is needed")
	}
	markettest.Eventually(t, "its bars are gone", func() bool {
		bars, _, err := b.store.Bars(t.Context(), "DOGE", signal.H1)
		return err == nil && len(bars) == 0
	})
	markettest.Eventually(t, "the exchange is no longer asked", func() bool { return !x.Follows("DOGEUSDT") })
	markettest.Eventually(t, "it is there again", func() bool {
		s, err := m.Series(t.Context(), "DOGE", signal.H1)
		return err == nil && len(s.Bars) > 900
	})
}

// TestAnUnneededAssetGivesWay: to one that is asked for, where as many are kept as may be.
func TestAnUnneededAssetGivesWay(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT", "DOGEUSDT", "SOLUSDT", "PEPEUSDT", "LINKUSDT")
	m := b.market(market.Options{Sources: "binance"})
	b.feed(Options{Sources: "binance", Real: exchangeOptions(x), maxKept: 3})
	asked := func(asset string) error {
		_, err := m.Series(t.Context(), asset, signal.H1)
		return err
	}
	for _, asset := range []string{"DOGE", "SOL", "BTC"} {
		if err := asked(asset); err != nil {
			t.Fatal(err)
		}
	}
	e, ok := errors.AsType[*signal.RunError](asked("LINK"))
	if !ok || e.Code != signal.DataUnavailable || e.RetryAfter != source.FullFor || !strings.Contains(e.Message, "as many assets") {
		t.Errorf("one more than may be: %v", e)
	}
	for asset, unused := range map[string]time.Duration{"SOL": source.KeepFull, "BTC": 0} {
		if err := b.store.NoteUse(t.Context(), []string{asset}, c.Now().Add(source.KeepFull+time.Minute-unused)); err != nil {
			t.Fatal(err)
		}
	}
	c.Add(source.KeepFull + time.Minute)
	if err := asked("PEPE"); err != nil {
		t.Errorf("no asset gives way: %v", err)
	}
	for asset, want := range map[string]bool{"BTC": true, "SOL": true, "PEPE": true, "DOGE": false} {
		if _, _, err := b.store.Asset(t.Context(), asset); (err == nil) != want {
			t.Errorf("%s: %v", asset, err)
		}
	}
}

// TestWhatSourcesListIsKnownOnEveryNode: so that a misspelt coin is refused before a run.
func TestWhatSourcesListIsKnownOnEveryNode(t *testing.T) {
	t.Parallel()
	c := markettest.NewClock()
	b := newBench(t, c.Now)
	x := markettest.New(t, c.Now, "BTCUSDT", "DOGEUSDT", "ETHBTC")
	m := b.market(market.Options{Sources: "binance,coinbase"})
	if _, ok := m.Check(t.Context(), "DOGGE"); !ok {
		t.Error("a coin is refused while no listing is known")
	}
	b.feed(Options{Sources: "binance,coinbase", Real: exchangeOptions(x)})
	markettest.Eventually(t, "the listings", func() bool {
		stored, err := b.store.Listings(t.Context(), []string{"binance", "coinbase"})
		return err == nil && len(stored) == 2
	})
	m = b.market(market.Options{Sources: "binance,coinbase"}) // which reads them at once
	markettest.Eventually(t, "the listings are read", func() bool {
		_, ok := m.Check(t.Context(), "DOGGE")
		return !ok
	})
	for asset, want := range map[string]bool{"DOGE": true, "doge/usd": true, "DOGGE": false, "ETHB": false, "BTC": true, "SOL": false} {
		nearest, ok := m.Check(t.Context(), asset)
		if ok != want || asset == "DOGGE" && !slices.Equal(nearest, []string{"DOGE"}) {
			t.Errorf("%s: %v, nearest %v", asset, ok, nearest)
		}
	}
}

// TestALateDeliveryBringsNothingBack: what a keeper had on its way when its asset was
// given up is dropped, else the asset would have a record and no keeper.
func TestALateDeliveryBringsNothingBack(t *testing.T) {
	t.Parallel()
	c, _ := minuteClock()
	store := &stepStore{}
	term := streamTerm(t, store, c)
	term.feeds = &feeds{keepers: make(map[string]*kept)}
	former := source.NewAssetFeed(source.FeedOptions{}, "DOGE", "")
	for name, d := range map[string]source.Delivery{
		"a history": {Feed: former, Record: &marketdata.Asset{Symbol: "DOGE", Source: "binance", Speed: 1}, Reset: true},
		"an end":    {Feed: former, Err: context.Canceled}, // the store would panic
	} {
		if err := term.workDelivery(t.Context(), &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(term.assets) != 0 || store.writes != 0 {
		t.Errorf("%d assets, %d writes", len(term.assets), store.writes)
	}
}
