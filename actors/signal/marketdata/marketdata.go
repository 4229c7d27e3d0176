// Package marketdata holds the values of the market: ticks, bars, news and the records
// of assets, as the feeder writes them and readers get them from the store. Times are
// milliseconds since 1970, UTC.
package marketdata

import (
	"errors"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Tick is a price at which an asset traded.
type Tick struct {
	Price  float64
	Volume float64 // 0 if the source does not publish it
	Time   int64
}

// ErrRestarted reports that all ids of a stream are smaller than a position that was read: the stream was deleted and
// written again, or Redis has lost entries. A reader goes on from the beginning.
var ErrRestarted = errors.New("the ids of the stream have begun again")

// TickStream is one of the two streams of ticks.
type TickStream int

// The streams.
const (
	// GivenTicks is market:ticks, to which any process may write.
	GivenTicks TickStream = iota
	// OwnTicks holds the ticks of the feeder's own sources. Only the feeder writes to it.
	OwnTicks
)

// AssetTick is a tick with the asset's symbol.
type AssetTick struct {
	Asset  string
	Source string // the source of the asset's prices
	Tick
	// Missed is the time since which ticks may be missing before this one, or 0. The prices
	// of that time are in the bars.
	Missed int64
}

// Bar is a closed interval of prices. The bars of one series have increasing open times;
// a strategy reads closed bars only.
type Bar struct {
	OpenTime, CloseTime    int64 // CloseTime is the next bar's OpenTime
	Open, High, Low, Close float64
	Volume                 float64 // 0 if the source does not publish it
	// Flat reports whether the bar fills a gap: all prices are the previous close.
	Flat bool
}

// AssetBar is a closed bar of an asset.
type AssetBar struct {
	Asset     string
	Timeframe signal.Timeframe
	// Given reports whether a source published the bar; otherwise it was built from
	// ticks or finer bars.
	Given bool
	Bar
}

// Series is the bars of one asset and timeframe, ascending, to be written
// at once.
type Series struct {
	Asset     string
	Timeframe signal.Timeframe
	Bars      []AssetBar
	// Reset drops what was stored before; otherwise bars with the same OpenTime are
	// replaced and the others stay.
	Reset bool
}

// Asset is the record of an asset.
type Asset struct {
	Symbol     string  // as it is shown
	Class      string  // crypto, stock, fx, metal, commodity; empty if unknown
	Source     string  // the source of its prices
	TickSize   float64 // prices are multiples of it; 0 if unknown
	AlwaysOpen bool    // it trades around the clock
	Speed      int64   // market time runs this many times as fast as the clock; 1 is real time
}

// Live holds the newest prices of an asset.
type Live struct {
	Asset  string
	Last   Tick // the newest tick; its Time is 0 before the first
	Minute Bar  // the 1m bar that is still open; its CloseTime is 0 without one
}

// NewsItem is a news item.
type NewsItem struct {
	ID                     string
	At                     int64
	Headline, Body, Source string
	Weight                 float64  // of the source, 0 to 1
	Symbols                []string // of the assets it is about
}

// Entry is an entry of an input stream of prices, as it was written, or one tick of a round.
type Entry struct {
	Position signal.Position // of all ticks of a round the same
	Fields   map[string]string
	// Tick is set, in place of Fields, for a tick of a round, which only the feeder's stream has.
	Tick *AssetTick
}

// State is the feeder's progress. The zero value is that of a new installation.
type State struct {
	Ticks, Bars signal.Position // the last entries consumed of the two input streams
	Checkpoint  []byte          // of a simulated source; nil without one
	Assets      []Asset
	Live        []Live
}

// Step is what the feeder stores at once.
type Step struct {
	Epoch       int64
	Ticks, Bars signal.Position
	Checkpoint  []byte // nil to keep the stored one
	Assets      []Asset
	Live        []Live
	Closed      []AssetBar // in the order in which readers are notified
	News        []NewsItem
	Removed     []string // symbols of assets that no source offers any more
}

// ClosedBar notifies a reader of a closed bar. Count has no gaps, so that a reader
// notices one that it missed.
type ClosedBar struct {
	Count int64
	// Bar without a CloseTime means that the whole series of its asset and timeframe was
	// replaced; without a timeframe, that the asset's record was changed or removed.
	Bar AssetBar
}

// OutcomeStrategies is the number of strategies in an Outcome: those that read only bars.
const OutcomeStrategies = 3

// Outcome records how the entries of strategies at the close of one bar ended. It never
// changes. Package strategy makes it.
type Outcome struct {
	Bar   int64                    // the open time of the bar in milliseconds
	Ended int64                    // when the last entry ended, in milliseconds
	At    int64                    // the time from which it is known: Ended, or when it was stored
	Bins  [OutcomeStrategies]uint8 // the strength of each strategy's score in tenths; of a short entry, 32 more
	R     [2][3]int8               // results of a long and of a short entry by risk level, in 1/20 R
}

// AssetOutcome is an outcome of an asset.
type AssetOutcome struct {
	Asset string // a key that also names the source and the speed of the asset's prices
	Outcome
}
