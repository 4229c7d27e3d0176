package signal

// The types of this file are what the market's feeder and readers exchange with
// the store. Times are milliseconds since 1970, UTC.

// Tick is a price at which an asset traded.
type Tick struct {
	Price  float64
	Volume float64 // 0 where the source gives none
	Time   int64
}

// TickStream is one of the two streams of ticks.
type TickStream int

// The streams.
const (
	// GivenTicks is market:ticks, to which anybody may write.
	GivenTicks TickStream = iota
	// OwnTicks has the ticks of the feeder's sources. Only the feeder writes there.
	OwnTicks
)

// AssetTick is a tick with the asset's symbol.
type AssetTick struct {
	Asset  string
	Source string // who gives the asset's prices
	Tick
	// Missed is since when ticks may be missing before this one, in milliseconds; 0:
	// none are. Bars tell what the prices were.
	Missed int64
}

// Bar is a closed interval of prices as it is stored. Its fields are those of
// strategy.Bar, so that one converts into the other.
type Bar struct {
	OpenTime, CloseTime    int64 // CloseTime is the next bar's OpenTime
	Open, High, Low, Close float64
	Volume                 float64 // 0 where the source gives none
	// Flat says that the bar fills a gap: all prices are the previous close.
	Flat bool
}

// MarketBar is a closed bar of an asset.
type MarketBar struct {
	Asset     string
	Timeframe Timeframe
	// Given says that a source gave the bar as it is; otherwise it was built from
	// ticks or finer bars.
	Given bool
	Bar
}

// MarketSeries is the bars of one asset and timeframe, ascending, to be written
// at once.
type MarketSeries struct {
	Asset     string
	Timeframe Timeframe
	Bars      []MarketBar
	// Reset drops what was stored before; otherwise bars with the same OpenTime are
	// replaced and the others stay.
	Reset bool
}

// MarketAsset is the record of an asset.
type MarketAsset struct {
	Symbol     string  // as it is shown
	Class      string  // crypto, stock, fx, metal, commodity; empty if that is not known
	Source     string  // who gives its prices
	TickSize   float64 // prices are multiples of it; 0: the source gives none
	AlwaysOpen bool    // it trades around the clock
	Speed      int64   // by how much its time is compressed; 1 is real time
}

// MarketLive is how far the prices of an asset have come.
type MarketLive struct {
	Asset  string
	Last   Tick // the newest tick; its Time is 0 if there was none
	Minute Bar  // the 1m bar that is still open; its CloseTime is 0 if there is none
}

// MarketNews is a news item.
type MarketNews struct {
	ID                     string
	At                     int64
	Headline, Body, Source string
	Weight                 float64  // of the source, 0 to 1
	Symbols                []string // of the assets it is about
}

// MarketEntry is an entry of a stream through which prices come in, as somebody
// wrote it.
type MarketEntry struct {
	Position Position
	Fields   map[string]string
}

// MarketState is where the feeder stands. The zero value is that of an
// installation that never had one.
type MarketState struct {
	Ticks, Bars Position // the last entries of the two input streams that were worked in
	Checkpoint  []byte   // of the source that makes its prices itself; nil if there is none
	Assets      []MarketAsset
	Live        []MarketLive
}

// MarketStep is what the feeder stores at once.
type MarketStep struct {
	Epoch       int64
	Ticks, Bars Position
	Checkpoint  []byte // nil: as it was
	Assets      []MarketAsset
	Live        []MarketLive
	Closed      []MarketBar // in the order in which readers shall hear of them
	News        []MarketNews
	Removed     []string // symbols of assets that no source gives any more
}

// ClosedBar is what readers hear of closed bars. They are counted without gaps,
// so that who misses one knows.
type ClosedBar struct {
	Count int64
	// Bar holds the asset and timeframe; without a CloseTime it says that the whole
	// series was written anew, and without a timeframe, that the asset's record is
	// another one or gone.
	Bar MarketBar
}
