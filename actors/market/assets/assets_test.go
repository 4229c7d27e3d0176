package assets

import "testing"

func TestNamesLeadToAssets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"BTC": "BTC", "btc": "BTC", "BTCUSDT": "BTC", "BTC-USD": "BTC", "btc/usd": "BTC", "BTCUSD": "BTC",
		"XBTUSD": "BTC", "ETH-USDT": "ETH", "SOL_USDC": "SOL", "EUR/USD": "EURUSD", "xau-usd": "XAUUSD",
		"Natural Gas": "natural_gas", "NATURAL_GAS": "natural_gas", "Oil": "oil", "aapl": "AAPL",
		"NOSUCH": "NOSUCH", "BTCEUR": "BTCEUR", "AAPLUSD": "AAPLUSD", "Ünïcode": "Ünïcode", "": "",
	} {
		if got := Symbol(name); got != want {
			t.Errorf("Symbol(%q) = %q, want %q", name, got, want)
		}
	}
	if got := Fold("aßc Ж"); got != "AßC Ж" {
		t.Errorf("key is %q: only ASCII letters change", got)
	}
}

func TestClassesAndKeys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"btc": Crypto, "BTC-USD": Crypto, "spy": Stock, "EUR/USD": FX, "gold": Metal, "corn": Commodity, "ACME": "",
	} {
		if got := ClassOf(name); got != want {
			t.Errorf("class of %s is %q, want %q", name, got, want)
		}
	}
	if a, b := Key("btc-usd"), Key("BTC"); a != b {
		t.Errorf("keys of one asset are %s and %s", a, b)
	}
}
