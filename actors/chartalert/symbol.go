package chartalert

import (
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/spelling"
)

var separators = strings.NewReplacer("-", "", "/", "", "_", "", " ", "")

// stable are the currencies that 3Commas writes before the asset, as in USDT_BTC, and money those
// that are quoted against them as they stand, as in USDT_EUR.
const (
	stable = " USDT USDC BUSD FDUSD TUSD DAI "
	money  = stable + "USD EUR GBP JPY TRY BRL AUD "
)

// Symbol returns the symbol of a chart program or an exchange as the aliases of assets have it: in
// upper case, without the exchange, the mark of a perpetual contract, separators, and "#" or "$"
// before it. BINANCE:BTCUSDT.P, BTC-USDT-SWAP and BTC/USDT:USDT are BTCUSDT; BRK.B and ES1! stay.
// A formula, such as the ratio of two symbols, is returned in upper case.
func Symbol(name string) string {
	s := strings.TrimLeft(spelling.Fold(strings.TrimSpace(name)), "#$")
	if strings.Count(s, ":") > 1 {
		return s
	}
	if before, after, ok := strings.Cut(s, ":"); ok {
		if strings.Contains(before, "/") {
			s = before // CCXT: the currency of settlement is after the colon
		} else {
			s = after
		}
	}
	for _, mark := range []string{".P", "PERP", "-SWAP"} {
		if bare, ok := strings.CutSuffix(s, mark); ok && bare != "" {
			s = strings.TrimRight(bare, "-_/. ")
			break
		}
	}
	if quote, base, ok := strings.Cut(s, "_"); ok && listed(stable, quote) && !listed(money, base) {
		s = base + quote
	}
	return separators.Replace(s)
}

func listed(list, name string) bool { return strings.Contains(list, " "+name+" ") }

const (
	day       = 24 * time.Hour
	month     = 30 * day
	maxBar    = 366 * day
	maxDigits = 6 // of an interval
)

// barUnits are the units of intervals. "M" is a month and "m" a minute; the case of the others
// does not matter.
var barUnits = map[string]time.Duration{
	"": time.Minute, "m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute,
	"minutes": time.Minute, "s": time.Second, "sec": time.Second, "h": time.Hour, "hr": time.Hour, "hour": time.Hour,
	"hours": time.Hour, "d": day, "day": day, "w": 7 * day, "week": 7 * day, "M": month, "mo": month, "mn": month,
	"month": month,
}

// Interval reads the length of a chart's bars: minutes as TradingView sends them (5, 240), with a
// unit (15S, 60m, 4h, 1D, W, 3M), or as MetaTrader writes them (M15, H4, D1, MN1). A month has 30
// days. M means months, except before a number. tf is the longest timeframe of the service that is
// not longer than length; below the shortest timeframe it is the shortest. ok is false for other
// texts, and for lengths of 0 or above 366 days.
func Interval(text string) (tf signal.Timeframe, length time.Duration, ok bool) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := text[len(digits):]
	if unit == "" && text != "" && (text[0] < '0' || text[0] > '9') { // MetaTrader
		digits = strings.TrimLeft(text, "MNHDWmnhdw")
		unit = strings.ToLower(text[:len(text)-len(digits)])
	}
	if unit != "M" {
		unit = strings.ToLower(unit)
	}
	digits = strings.TrimSpace(digits)
	count := 1
	if digits != "" || unit == "" {
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || len(digits) > maxDigits {
			return "", 0, false
		}
		count = int(n)
	}
	length = time.Duration(count) * barUnits[unit]
	if length <= 0 || length > maxBar {
		return "", 0, false
	}
	tf = signal.Timeframes[0]
	for _, t := range signal.Timeframes {
		if t.Duration() <= length {
			tf = t
		}
	}
	return tf, length, true
}
