package strategy

import (
	"fmt"
	"math"
)

// momentum follows the moves of the last 10 and 40 bars and the distance of the
// moving averages, more so the stronger the trend.
type momentum struct{}

func (momentum) name() string { return Momentum }

func (momentum) score(f *Features) float64 {
	z10 := clip3(f.Move10 / (f.Sigma * math.Sqrt(shortMove)))
	z40 := clip3(f.Move40 / (f.Sigma * math.Sqrt(longMove)))
	e := clip3((f.EMA12 - f.EMA26) / f.ATR14)
	return (z10 + z40 + e) / 3 * clip((f.ADX14-10)/15, 0.25, 1)
}

func (momentum) indicators() []string { return []string{"ema_12_26", "adx_14", "atr_14"} }

func (momentum) values(f *Features) map[string]any {
	return map[string]any{
		"ema_12_26": map[string]any{"ema_12": significant(f.EMA12), "ema_26": significant(f.EMA26)},
		"adx_14":    round(f.ADX14, 2),
		"atr_14":    significant(f.ATR14),
	}
}

func (momentum) finding(f *Features) string {
	side := "above"
	if f.EMA12 < f.EMA26 {
		side = "below"
	}
	return fmt.Sprintf("EMA12 is %.1f ATR %s EMA26 and the 40-bar move is %+.1f sigma; ADX %.0f %s",
		math.Abs(f.EMA12-f.EMA26)/f.ATR14, side, f.Move40/(f.Sigma*math.Sqrt(longMove)), f.ADX14, trendWord(f.ADX14))
}

// trendWord returns what an ADX means to momentum, whose trend factor is largest from 25
// on and smallest up to 13.75.
func trendWord(adx float64) string {
	switch {
	case adx >= 25:
		return "confirms a trend"
	case adx > 13.75:
		return "shows a weak trend"
	}
	return "shows no trend"
}
