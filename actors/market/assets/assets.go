// Package assets lists the assets that the service knows by name, with their classes and the
// parameters of their simulation, and is the one place that normalises names: Find returns the
// known asset that a name means in any spelling, Symbol its symbol, Key its key in the store, and
// Fold the key of a name that already is a symbol.
package assets

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

// The classes of assets. An asset from a stream has no class unless its name is known.
const (
	Crypto    = "crypto"
	Stock     = "stock"
	FX        = "fx"
	Metal     = "metal"
	Commodity = "commodity"
)

// Spec describes an asset of the simulated market and how its price moves there.
type Spec struct {
	Symbol, Class, Name string
	Price               float64 // to which the simulated price reverts
	Volatility          float64 // annual standard deviation of log returns
	Turnover            float64 // mean volume of a simulated day, in units
}

// Known are the assets of the simulated market. Their classes also apply to prices from outside.
var Known = []Spec{
	{"BTC", Crypto, "Bitcoin", 67000, .55, 24000},
	{"ETH", Crypto, "Ether", 3400, .70, 360000},
	{"SOL", Crypto, "Solana", 160, .90, 4e6},
	{"AAPL", Stock, "Apple", 225, .28, 55e6},
	{"MSFT", Stock, "Microsoft", 430, .28, 22e6},
	{"NVDA", Stock, "Nvidia", 120, .50, 250e6},
	{"TSLA", Stock, "Tesla", 250, .55, 90e6},
	{"SPY", Stock, "S&P 500 fund", 570, .16, 60e6},
	{"QQQ", Stock, "Nasdaq 100 fund", 490, .21, 40e6},
	{"EURUSD", FX, "Euro", 1.085, .08, 900e6},
	{"GBPUSD", FX, "Sterling", 1.27, .08, 500e6},
	{"USDJPY", FX, "Dollar against yen", 150, .08, 700e6},
	{"XAUUSD", Metal, "Gold", 2650, .16, 18e6},
	{"natural_gas", Commodity, "Natural gas", 2.80, .60, 3e6},
	{"wheat", Commodity, "Wheat", 560, .30, 600e3},
	{"corn", Commodity, "Corn", 420, .28, 1.5e6},
	{"oil", Commodity, "Crude oil", 72, .35, 1.1e6},
}

// Max bounds the number of assets, because every new name in a stream creates one.
const Max = 10_000

// spoken holds the names of assets in headlines, besides symbol and name. It leaves out symbols
// that are English words, to stay unambiguous.
var spoken = map[string][]string{
	"BTC": {"bitcoin"}, "ETH": {"ethereum", "ether"}, "SOL": {"solana"}, "AAPL": {"apple"}, "MSFT": {"microsoft"},
	"NVDA": {"nvidia"}, "TSLA": {"tesla"}, "SPY": {"s&p 500"}, "QQQ": {"nasdaq 100", "nasdaq-100"},
	"EURUSD": {"eur/usd", "euro"}, "GBPUSD": {"gbp/usd", "sterling", "british pound"},
	"USDJPY": {"usd/jpy", "japanese yen", "yen"}, "XAUUSD": {"gold", "xau/usd"},
	"natural_gas": {"natural gas", "henry hub", "natgas"}, "wheat": {"wheat"}, "corn": {"corn", "maize"},
	"oil": {"crude", "crude oil", "oil", "brent", "wti"},
}

// SpokenNames returns the names of the asset with a symbol in headlines, besides its symbol and name.
func SpokenNames(symbol string) []string { return spoken[symbol] }

// byKey finds an asset by its key and by the spellings of other services.
var byKey = func() map[string]*Spec {
	m := make(map[string]*Spec)
	for i := range Known {
		k := &Known[i]
		m[Fold(k.Symbol)] = k
		m[Bare(k.Symbol)] = k
		m[Bare(k.Name)] = k
		if k.Class == Crypto {
			for _, quote := range []string{"USD", "USDT", "USDC", "BUSD", "FDUSD", "TUSD", "DAI"} {
				m[k.Symbol+quote] = k
			}
		}
	}
	for alias, symbol := range map[string]string{"XBT": "BTC", "XBTUSD": "BTC", "ETHEREUM": "ETH",
		"NATGAS": "natural_gas", "CRUDE": "oil", "MAIZE": "corn"} {
		m[alias] = m[Fold(symbol)]
	}
	return m
}()

// Fold returns the key of a symbol.
func Fold(name string) string { return spelling.Fold(name) }

var separators = strings.NewReplacer("-", "", "/", "", "_", "", " ", "", ":", "")

// Bare returns the key of name without the separators of currency pairs.
func Bare(name string) string { return separators.Replace(Fold(name)) }

// Find returns the known asset that name means, or nil.
func Find(name string) *Spec {
	if k := byKey[Fold(name)]; k != nil {
		return k
	}
	return byKey[Bare(name)]
}

// Spellings returns the keys of the other names of the known asset with a symbol, sorted.
func Spellings(symbol string) []string { return spellings[symbol] }

var spellings = func() map[string][]string {
	m := make(map[string][]string)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if symbol := byKey[key].Symbol; key != Fold(symbol) {
			m[symbol] = append(m[symbol], key)
		}
	}
	return m
}()

// Symbol returns the symbol of the known asset that name means in any spelling, else name itself.
func Symbol(name string) string {
	if k := Find(name); k != nil {
		return k.Symbol
	}
	return name
}

// Key returns the key in the store of the asset that name means.
func Key(name string) string { return Fold(Symbol(name)) }

// ClassOf returns the class of the known asset that name means in any spelling, or an empty string.
func ClassOf(name string) string {
	if k := Find(name); k != nil {
		return k.Class
	}
	return ""
}

// Classes lists the classes of assets.
var Classes = []string{Crypto, Stock, FX, Metal, Commodity}

// ClassOr returns the class of the known asset that name means, or given if the name is not known.
// The error says what to give.
func ClassOr(name, given string) (string, error) {
	list := strings.Join(Classes, ", ")
	known := ClassOf(name)
	switch {
	case given != "" && !slices.Contains(Classes, given):
		return "", fmt.Errorf("--class: %q must be one of %s", given, list)
	case known != "":
		return known, nil
	case given == "":
		return "", fmt.Errorf("%s is not a known asset, so its costs are not known: give --class (%s) or --cost", name, list)
	}
	return given, nil
}

// maxDecimals is the greatest number of decimals of a price.
const maxDecimals = 10

// PriceText returns a price of an asset as a trader writes it. The class of the asset and the size of the
// price decide on the decimals. Prices that stand beside it are given in among: the size of the first of
// these then decides, so that all have as many decimals, and there are more if two different ones would
// look the same. Nil ones do not count. Halves are rounded away from zero.
//
// The console does the same: http/console/src/format.json has examples, with which tests of both agree.
func PriceText(asset string, price float64, among ...*float64) string {
	size := price
	if len(among) > 0 && among[0] != nil {
		size = *among[0]
	}
	d := usualDecimals(ClassOf(asset), math.Abs(size))
	for d < maxDecimals && someLookTheSame(among, d) {
		d++
	}
	return fixed(price, d)
}

func usualDecimals(class string, size float64) int {
	switch {
	case class == FX && size >= 20: // yen
		return 3
	case class == FX:
		return 5
	case class == Commodity && size < 10:
		return 3
	case size >= 100 || size == 0 || class != "" && class != Crypto && size >= 1:
		return 2
	case size >= 1:
		return 4
	}
	d := 3
	for ; size < 1 && d < maxDecimals; d++ { // four digits; a logarithm could differ from the console's at powers of ten
		size *= 10
	}
	return d
}

// someLookTheSame reports whether two different prices have the same text with d decimals.
func someLookTheSame(prices []*float64, d int) bool {
	seen := map[string]float64{}
	for _, p := range prices {
		if p == nil {
			continue
		}
		text := fixed(*p, d)
		if other, ok := seen[text]; ok && other != *p {
			return true
		}
		seen[text] = *p
	}
	return false
}

// fixed returns x with d decimals. It rounds the shortest decimal number that means x, which is the one in
// the API's answers: formatting x itself would round 1.005, which is a little less in binary, down.
func fixed(x float64, d int) string {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		return strconv.FormatFloat(x, 'f', d, 64) // no number
	}
	return exact.FloatString(d)
}
