package market

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// namesOf returns a market of sources without prices, except for the asset X.
func namesOf(t *testing.T, sources string, listed listings) (*Market, *fakeStore) {
	t.Helper()
	sys := engine.NewSystem(engine.Options{})
	t.Cleanup(func() { _ = sys.Shutdown(context.Background()) })
	store := &fakeStore{asset: marketdata.Asset{Symbol: "X", Source: source.Stream, Speed: 1}}
	m := New(sys, Options{Store: store, Sources: sources, Now: markettest.NewClock().Now})
	if listed != nil {
		m.loader.names.listings.Store(&listed)
	}
	return m, store
}

var someListings = listings{
	"binance":  {"BTCUSDT": "BTC", "DOGEUSDT": "DOGE", "PEPEUSDT": "PEPE"},
	"coinbase": {"BTC-USD": "BTC", "LINK-USD": "LINK"},
}

func TestNamesOfAssets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources string
		listed  listings
		names   map[string]string
	}{
		{"simulated", nil, map[string]string{"btc": "BTC", "BTCUSDT": "BTC", "BTC/USD": "BTC", "BTC-USD": "BTC",
			"bitcoin": "BTC", "Ethereum": "ETH", "s&p 500 fund": "SPY", "Crude oil": "oil",
			"xbt": "BTC", "gold": "XAUUSD", "NATGAS": "natural_gas", "Natural Gas": "natural_gas", "walk": "walk",
			"dogeusdt": "dogeusdt"}},
		{"stream", nil, map[string]string{"btcusdt": "BTC", "Walk": "Walk", "ACMEUSD": "ACMEUSD"}},
		{"binance,stream", nil, map[string]string{"btcusdt": "BTC", "ACMEUSD": "ACMEUSD"}},
		{"binance", nil, map[string]string{"doge": "DOGE", "DOGEUSDT": "DOGE", "doge/usd": "DOGE", "DOGE-USD": "DOGE",
			"eurusd": "EURUSD", "two words!": "two words!", "PYUSD": "PYUSD", "pyusd/usd": "PYUSD",
			"FDUSDUSDT": "FDUSD", "FDUSD": "FDUSD", "dogeusdtusd": "DOGE", "USDT": "USDT", "USD": "USD"}},
		{"binance,coinbase", someListings, map[string]string{"link": "LINK", "link-usd": "LINK", "DOGE/USD": "DOGE"}},
		{"alpaca", nil, map[string]string{"ibm": "IBM", "brk.b": "BRK.B", "aapl": "AAPL", "dogeusdt": "dogeusdt"}},
	} {
		m, _ := namesOf(t, c.sources, c.listed)
		for name, want := range c.names {
			if got := m.Assets.Name(name); got != want {
				t.Errorf("%s: %s is %s, want %s", c.sources, name, got, want)
			}
			if got := m.Assets.Name(m.Assets.Name(name)); got != want {
				t.Errorf("%s: the name %s has the name %s", c.sources, want, got)
			}
		}
	}
}

// The name of a name must be itself, or an asset would be taken up under one name and looked for
// under another.
func FuzzNamesOfAssets(f *testing.F) {
	for _, name := range []string{"btc/usd", "PYUSD", "PYUSDUSDT", "DOGEUSDTUSD", "USDUSD", "brk.b", "two words!"} {
		f.Add(name)
	}
	all := []*names{
		{sources: []string{"binance", "alpaca"}, real: true}, {sources: []string{"coinbase"}, real: true}, {},
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, m := range all {
			if once := m.name(name); m.name(once) != once {
				t.Errorf("%q is %q, and that %q", name, once, m.name(once))
			}
		}
	})
}

func TestCheckRefusesUnknownAssets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources, asset string
		listed         listings
		ok             bool
		nearest        []string
	}{
		{"simulated", "BTC", nil, true, nil},
		{"simulated", "btcusdt", nil, true, nil},
		{"simulated", "BTCC", nil, false, []string{"BTC"}},
		{"simulated", "natural_gass", nil, false, []string{"natural_gas"}},
		{"simulated", "BITCON", nil, false, []string{"BTC"}},
		{"simulated", "BTCUSTD", nil, false, []string{"BTC"}},
		{"simulated", "standing desk", nil, false, nil},
		{"simulated", "x", nil, true, nil}, // its prices come from outside
		{"stream", "BTCC", nil, true, nil},
		{"simulated,stream", "BTCC", nil, true, nil},
		{"binance", "BTCC", nil, true, nil}, // the listing is not known
		{"binance", "two words!", nil, false, nil},
		{"binance", "EURUSD", nil, false, nil},
		{"binance", "AAPL", nil, false, nil}, // not a coin
		{"binance", "DOGE/USD", someListings, true, nil},
		{"binance", "DOGGE", someListings, false, []string{"DOGE"}},
		{"binance", "ETH", someListings, false, nil}, // known, but not listed
		{"coinbase", "LINKUSDT", someListings, true, nil},
		{"coinbase", "PEPE", someListings, false, nil},
		{"coinbase,binance", "PEPEUSD", someListings, true, nil},
		{"alpaca", "natural_gas", nil, true, nil}, // by a fund
		{"alpaca", "AAPLL", nil, true, nil},
		{"alpaca", "BTC", nil, false, nil},
	} {
		m, _ := namesOf(t, c.sources, c.listed)
		nearest, ok := m.Assets.Check(t.Context(), m.Assets.Name(c.asset))
		if d := cmp.Diff(c.nearest, nearest, cmpopts.EquateEmpty()); ok != c.ok || d != "" {
			t.Errorf("%s: %s: %v (-want +got):\n%s", c.sources, c.asset, ok, d)
		}
	}
}

// A filter may have any name but those that look like an asset that exists.
func TestSuggestForNamesInFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sources, name string
		listed        listings
		nearest       []string
	}{
		{"simulated", "BTC", nil, nil},
		{"simulated", "btc/usd", nil, nil},
		{"simulated", "Bitcoin", nil, nil},
		{"simulated", "BTCC", nil, []string{"BTC"}},
		{"simulated", "bitcon", nil, []string{"BTC"}},
		{"simulated", "etherium", nil, []string{"ETH"}},
		{"simulated", "natrual gas", nil, []string{"natural_gas"}},
		{"simulated", "standing desk", nil, nil},
		{"simulated", "x", nil, nil},  // its prices come from outside
		{"simulated", "xy", nil, nil}, // no source gives such assets any more
		{"stream", "X", nil, nil},
		{"stream", "XY", nil, []string{"X"}},
		{"stream", "BTCC", nil, nil}, // there is no BTC
		{"stream,simulated", "BTCC", nil, []string{"BTC"}},
		{"binance", "DOGGE", someListings, []string{"DOGE"}},
		{"binance", "DOGGE", nil, nil}, // the listing is not known
		{"coinbase", "PEPPE", someListings, nil},
	} {
		m, _ := namesOf(t, c.sources, c.listed)
		if d := cmp.Diff(c.nearest, m.Assets.Suggest(t.Context(), c.name), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", c.sources, c.name, d)
		}
	}
}

// The run itself reports that Redis cannot be reached.
func TestCheckPassesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	m, store := namesOf(t, "simulated", nil)
	store.err = signal.Unavailable(context.DeadlineExceeded)
	if _, ok := m.Assets.Check(t.Context(), "BTCC"); !ok || m.Assets.Suggest(t.Context(), "BTCC") != nil {
		t.Error("an asset is refused although Redis cannot be asked")
	}
}

func TestAssetsAreListed(t *testing.T) {
	t.Parallel()
	m, store := namesOf(t, "binance,simulated", someListings)
	now := m.o.Now()
	store.live = marketdata.Live{Asset: "X", Last: marketdata.Tick{Price: 1.5, Time: now.UnixMilli() - 1000}}
	list, err := m.Assets.Assets(t.Context())
	if err != nil || len(list) != len(assets.Known)+1 {
		t.Fatalf("%d assets, %v", len(list), err)
	}
	byName := map[string]AssetState{}
	for i, a := range list {
		byName[a.Symbol] = a
		if i > 0 && assets.Fold(list[i-1].Symbol) >= assets.Fold(a.Symbol) {
			t.Errorf("%s comes before %s", list[i-1].Symbol, a.Symbol)
		}
	}
	for _, want := range []AssetState{
		{Symbol: "X", Source: "stream", Last: 1.5, LastAt: prices.Time(now.UnixMilli() - 1000), Open: true},
		{Symbol: "BTC", Class: assets.Crypto, Source: "binance", Open: true},
		{Symbol: "ETH", Class: assets.Crypto, Source: "simulated", Simulated: true, Open: true}, // not listed
		{Symbol: "EURUSD", Class: assets.FX, Source: "simulated", Simulated: true, Open: true},
	} {
		if d := cmp.Diff(want, byName[want.Symbol]); d != "" {
			t.Errorf("%s (-want +got):\n%s", want.Symbol, d)
		}
	}
	real, _ := namesOf(t, "alpaca", nil)
	saturday := time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)
	real.Assets.now = func() time.Time { return saturday }
	list, err = real.Assets.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Symbol == "AAPL" && (a.Open || a.Source != "alpaca" || a.Simulated) || a.Symbol == "BTC" {
			t.Errorf("%+v", a)
		}
	}
}
