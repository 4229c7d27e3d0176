package chartalert

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestSymbol(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"BINANCE:BTCUSDT": "BTCUSDT", "NASDAQ:AAPL": "AAPL", "OANDA:EUR_USD": "EURUSD", "NYMEX_DL:NG1!": "NG1!",
		"BTCUSDT.P": "BTCUSDT", "btcusdt.p": "BTCUSDT", "BTCUSDTPERP": "BTCUSDT", "BTC-PERP": "BTC", "BYBIT:BTCUSDT.P": "BTCUSDT",
		"BTC-USDT-SWAP": "BTCUSDT", "BTC/USDT": "BTCUSDT", "BTC/USDT:USDT": "BTCUSDT", "BTC/USDT:USDT-260327": "BTCUSDT",
		"USDT_BTC": "BTCUSDT", "USDT_EUR": "USDTEUR", "USDC_USDT": "USDCUSDT", "USD_JPY": "USDJPY",
		"#BTC/USDT": "BTCUSDT", "$TSLA": "TSLA", "BRK.B": "BRK.B", "natural gas": "NATURALGAS", " aapl ": "AAPL",
		"PERP": "PERP", ".P": ".P", "PERPUSDT": "PERPUSDT", "": "", "BINANCE:": "", "MKR": "MKR",
		"BINANCE:BTCUSDT/BINANCE:ETHUSDT": "BINANCE:BTCUSDT/BINANCE:ETHUSDT",
	} {
		if got := Symbol(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		texts  []string
		tf     signal.Timeframe
		length time.Duration
	}{
		{[]string{"1", "1m", "M1", "60s", "1min", " 1 "}, signal.M1, time.Minute},
		{[]string{"5", "5m", "M5", "5 min", "300S"}, signal.M5, 5 * time.Minute},
		{[]string{"60", "60m", "1h", "1H", "H", "H1", "1 hour"}, signal.H1, time.Hour},
		{[]string{"1D", "D", "d", "1d", "D1", "1440", "24h"}, signal.D1, 24 * time.Hour},
		{[]string{"15S", "15s"}, signal.M1, 15 * time.Second},
		{[]string{"S", "1S"}, signal.M1, time.Second},
		{[]string{"3"}, signal.M1, 3 * time.Minute},
		{[]string{"15", "M15", "15m"}, signal.M5, 15 * time.Minute},
		{[]string{"240", "4h", "H4"}, signal.H1, 4 * time.Hour},
		{[]string{"W", "1W", "w", "W1", "10080"}, signal.D1, 7 * 24 * time.Hour},
		{[]string{"M", "1M", "MN", "MN1", "1mo"}, signal.D1, 30 * 24 * time.Hour},
		{[]string{"12M"}, signal.D1, 360 * 24 * time.Hour},
		{[]string{"", " ", "0", "0m", "-5", "1.5h", "100T", "100R", "13M", "9999999", "h4h", "1 2", "5:m", "é", "NW"}, "", 0},
	} {
		for _, text := range c.texts {
			tf, length, ok := Interval(text)
			if tf != c.tf || length != c.length || ok != (length > 0) {
				t.Errorf("%q: got %s of %v, %v, want %s of %v", text, tf, length, ok, c.tf, c.length)
			}
		}
	}
}
