package strategy

// Bar is a closed interval of prices. Bars of one series have increasing open
// times; a strategy reads closed bars only.
type Bar struct {
	OpenTime, CloseTime    int64 // milliseconds since 1970, UTC; CloseTime is the next bar's OpenTime
	Open, High, Low, Close float64
	Volume                 float64 // 0 where the source gives none
	// Flat says that the bar fills a gap: all prices are the previous close.
	Flat bool
}
