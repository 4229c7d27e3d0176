package strategy

import (
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Prices outside these bounds are taken for errors of the source: a lower price equals
// its neighbours at 8 decimals, and above the upper bound float64 is coarser than a tick.
const (
	minPrice = 1e-8
	maxPrice = 1e15
)

// The bars that may be missing from a series inside trading sessions.
const (
	maxMissingInRow = 3
	maxMissingShare = 0.02 // of all bars, the missing ones included
)

// checkPrice returns ErrBadBar for a price that is NaN or out of bounds.
func checkPrice(p float64) error {
	if !(p >= minPrice && p <= maxPrice) { // also refuses NaN
		return fmt.Errorf("price %v: %w", p, ErrBadBar)
	}
	return nil
}

// CheckBar returns ErrBadBar if b is not a possible bar.
func CheckBar(b marketdata.Bar) error {
	for _, p := range [...]float64{b.Open, b.High, b.Low, b.Close} {
		if err := checkPrice(p); err != nil {
			return err
		}
	}
	switch {
	case b.High < max(b.Open, b.Close):
		return fmt.Errorf("high %v below open or close: %w", b.High, ErrBadBar)
	case b.Low > min(b.Open, b.Close):
		return fmt.Errorf("low %v above open or close: %w", b.Low, ErrBadBar)
	case !(b.Volume >= 0) || !finite(b.Volume):
		return fmt.Errorf("volume %v: %w", b.Volume, ErrBadBar)
	case b.CloseTime <= b.OpenTime:
		return fmt.Errorf("close time %d not after open time %d: %w", b.CloseTime, b.OpenTime, ErrBadBar)
	}
	return nil
}

// AppendBar appends b to bars, which are in order. A bar with the open time of the last
// one replaces it. On ErrBadBar and ErrOldBar bars are unchanged. Like append, it may
// write to the array of bars.
func AppendBar(bars []marketdata.Bar, b marketdata.Bar) ([]marketdata.Bar, error) {
	if err := CheckBar(b); err != nil {
		return bars, err
	}
	if n := len(bars); n > 0 {
		last := bars[n-1]
		switch {
		case b.OpenTime < last.OpenTime:
			return bars, fmt.Errorf("open time %d before %d: %w", b.OpenTime, last.OpenTime, ErrOldBar)
		case b.OpenTime == last.OpenTime:
			bars[n-1] = b
			return bars, nil
		case b.OpenTime < last.CloseTime:
			return bars, fmt.Errorf("open time %d inside the bar before: %w", b.OpenTime, ErrBadBar)
		}
	}
	return append(bars, b), nil
}

// FillGaps returns bars with the ones that are missing inside sessions filled in: flat
// bars at the previous close, without volume. next returns the open time of the bar that
// follows one in the session calendar, so that closed sessions are not gaps; nil means
// that the market is always open. If more than three are missing in a row, or more than 2
// % of all, the error is DATA_UNAVAILABLE, which is retryable. bars must be in order, as
// AppendBar makes them.
func FillGaps(bars []marketdata.Bar, next func(marketdata.Bar) int64) ([]marketdata.Bar, error) {
	if next == nil {
		next = func(b marketdata.Bar) int64 { return b.CloseTime }
	}
	filled := make([]marketdata.Bar, 0, len(bars))
	missing, row := 0, 0
	for _, b := range bars {
		for row = 0; len(filled) > 0; row++ {
			last := filled[len(filled)-1]
			open := next(last)
			if open >= b.OpenTime || open <= last.OpenTime {
				break
			}
			if row == maxMissingInRow {
				return nil, unavailable("more than %d bars in a row are missing", maxMissingInRow)
			}
			filled = append(filled, flatBar(last, open, min(open+last.CloseTime-last.OpenTime, b.OpenTime)))
		}
		missing += row
		filled = append(filled, b)
	}
	if float64(missing) > maxMissingShare*float64(len(filled)) {
		return nil, unavailable("%d of %d bars are missing", missing, len(filled))
	}
	return filled, nil
}

// flatBar returns the bar that fills a gap after last.
func flatBar(last marketdata.Bar, open, closeTime int64) marketdata.Bar {
	c := last.Close
	return marketdata.Bar{OpenTime: open, CloseTime: closeTime, Open: c, High: c, Low: c, Close: c, Flat: true}
}

// Errors of bars. All other errors are *signal.RunError.
var (
	ErrBadBar = errors.New("bad bar")                        // a price or a time is impossible
	ErrOldBar = errors.New("bar older than its predecessor") // it would have to be inserted
)

// insufficient returns an error for too short a history, which only time extends.
func insufficient(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.InsufficientHistory, Message: fmt.Sprintf(format, args...)}
}

// unavailable returns an error for data that may suffice later.
func unavailable(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.DataUnavailable, Retryable: true, Message: fmt.Sprintf(format, args...)}
}

// internal returns an error for a caller's request that does not exist, such as an
// unknown strategy.
func internal(format string, args ...any) *signal.RunError {
	return &signal.RunError{Code: signal.Internal, Message: "internal error", Cause: fmt.Errorf(format, args...)}
}

// JumpError reports a bar that opens too far from the close before it.
type JumpError struct {
	Bar int64   // its open time in milliseconds
	ATR float64 // the distance in ATR14
}

// Error implements error.
func (e *JumpError) Error() string {
	return fmt.Sprintf("the bar of %s opens %.0f ATR from the close before it",
		time.UnixMilli(e.Bar).UTC().Format(time.RFC3339), e.ATR)
}
