package market

import (
	"math"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// The classes of assets. The class of an asset that only appeared in a stream is
// empty unless it has a known name.
const (
	Crypto    = "crypto"
	Stock     = "stock"
	FX        = "fx"
	Metal     = "metal"
	Commodity = "commodity"
)

// Asset is something that has a price.
type Asset struct {
	Symbol     string  // as it is shown: BTC, natural_gas
	Class      string  // one of the constants; empty if that is not known
	TickSize   float64 // prices are multiples of it; 0: the source gives none
	AlwaysOpen bool    // it trades around the clock
}

// Tick is a price at which an asset traded.
type Tick struct {
	Price  float64
	Volume float64 // 0 where the source gives none
	Time   int64   // milliseconds since 1970
}

// known is an asset of the simulated market, and how it moves there.
type known struct {
	symbol, class, name string
	price               float64 // to which the simulated price returns, in the long run
	volatility          float64 // of a year, by the standard deviation of log returns
	turnover            float64 // mean volume of a simulated day, in units
}

// knownAssets are the assets of the simulated market, whose classes hold for
// prices from outside, too.
var knownAssets = []known{
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

// knownByKey finds an asset by key and by the spellings of other places.
var knownByKey = func() map[string]*known {
	m := make(map[string]*known)
	for i := range knownAssets {
		k := &knownAssets[i]
		m[assetKey(k.symbol)] = k
		m[bare(k.symbol)] = k
		if k.class == Crypto {
			for _, quote := range []string{"USD", "USDT", "USDC", "BUSD", "FDUSD", "TUSD", "DAI"} {
				m[k.symbol+quote] = k
			}
		}
	}
	for alias, symbol := range map[string]string{"XBT": "BTC", "XBTUSD": "BTC", "GOLD": "XAUUSD", "NATGAS": "natural_gas",
		"CRUDE": "oil", "CRUDEOIL": "oil", "MAIZE": "corn"} {
		m[alias] = m[assetKey(symbol)]
	}
	return m
}()

// assetKey returns the name by which an asset is found: ASCII letters in upper
// case, everything else as it is.
func assetKey(name string) string {
	for i := range len(name) {
		if 'a' <= name[i] && name[i] <= 'z' {
			b := []byte(name)
			for ; i < len(b); i++ {
				if 'a' <= b[i] && b[i] <= 'z' {
					b[i] -= 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return name
}

var separators = strings.NewReplacer("-", "", "/", "", "_", "", " ", "", ":", "")

// bare returns the key of name without the separators that pairs are spelt with.
func bare(name string) string {
	return separators.Replace(assetKey(name))
}

// lookUp returns the known asset that name means, or nil.
func lookUp(name string) *known {
	if k := knownByKey[assetKey(name)]; k != nil {
		return k
	}
	return knownByKey[bare(name)]
}

// canonical returns the symbol that name means: that of a known asset by any of
// its spellings, else name itself.
func canonical(name string) string {
	if k := lookUp(name); k != nil {
		return k.symbol
	}
	return name
}

// Key returns the key under which the store has the asset that name means.
func Key(name string) string { return assetKey(canonical(name)) }

// roundTo returns the multiple of step that is nearest to price. Steps below 1
// are powers of ten, so their inverse is a whole number and the result is the
// float that the decimal spells.
func roundTo(price, step float64) float64 {
	if step < 1 {
		inverse := math.Round(1 / step)
		return math.Round(price*inverse) / inverse
	}
	return math.Round(price/step) * step
}

// assetOf returns what readers are told of an asset with record r.
func assetOf(r marketdata.Asset) Asset {
	return Asset{Symbol: r.Symbol, Class: r.Class, TickSize: r.TickSize, AlwaysOpen: r.AlwaysOpen}
}
