// Package assets lists the assets that the service knows by name, with their classes and
// what the simulated market starts from, and is the one place where names are normalised:
// Find returns the known asset that a name means in any spelling, Symbol its symbol, Key
// the key under which the store has it, and Fold the key of what is a symbol already.
package assets

// The classes of assets. The class of an asset that only appeared in a stream is
// empty unless it has a known name.
const (
	Crypto    = "crypto"
	Stock     = "stock"
	FX        = "fx"
	Metal     = "metal"
	Commodity = "commodity"
)

// Spec is an asset of the simulated market, and how it moves there.
type Spec struct {
	Symbol, Class, Name string
	Price               float64 // to which the simulated price returns, in the long run
	Volatility          float64 // of a year, by the standard deviation of log returns
	Turnover            float64 // mean volume of a simulated day, in units
}

// Known are the assets of the simulated market, whose classes hold for
// prices from outside, too.
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

// Max bounds the assets that names in a stream can make.
const Max = 10_000

// spoken are the names by which headlines speak of assets, beside symbol and name.
// Symbols that are words of English are left out: what is left must be unambiguous.
var spoken = map[string][]string{
	"BTC": {"bitcoin"}, "ETH": {"ethereum", "ether"}, "SOL": {"solana"}, "AAPL": {"apple"}, "MSFT": {"microsoft"},
	"NVDA": {"nvidia"}, "TSLA": {"tesla"}, "SPY": {"s&p 500"}, "QQQ": {"nasdaq 100", "nasdaq-100"},
	"EURUSD": {"eur/usd", "euro"}, "GBPUSD": {"gbp/usd", "sterling", "british pound"}, "USDJPY": {"usd/jpy", "japanese yen", "yen"},
	"XAUUSD": {"gold", "xau/usd"}, "natural_gas": {"natural gas", "henry hub", "natgas"}, "wheat": {"wheat"}, "corn": {"corn", "maize"},
	"oil": {"crude", "crude oil", "oil", "brent", "wti"},
}

// SpokenNames returns the names by which headlines speak of the asset with a symbol,
// beside the symbol itself and its name.
func SpokenNames(symbol string) []string { return spoken[symbol] }
