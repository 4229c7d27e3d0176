// Package assets lists the assets that the service knows by name, with their classes and the
// parameters of their simulation, and is the one place that normalises names: Find returns the
// known asset that a name means in any spelling, Symbol its symbol, Key its key in the store, and
// Fold the key of a name that already is a symbol.
package assets

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
