package strategy

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// The trading strategies.
const (
	Momentum      = "momentum"
	MeanReversion = "mean_reversion"
	Breakout      = "breakout"
	Sentiment     = "sentiment"
)

// technical is a strategy that needs bars only. Sentiment also needs news.
type technical interface {
	name() string
	// score is called only if the features are ready and the market moves. The sign is
	// the direction, the size the conviction.
	score(f *Features) float64
	indicators() []string
	// values maps each indicator to its number, or to several numbers by name.
	values(f *Features) map[string]any
	// finding describes what the score rests on, without a full stop.
	finding(f *Features) string
}

// technicals lists them. A series keeps scores by the same index.
var technicals = [marketdata.OutcomeStrategies]technical{momentum{}, meanReversion{}, breakout{}}

// momentumIndex is the index of momentum, whose score is part of sentiment.
const momentumIndex = 0

// technicalIndex returns the index of the named strategy in technicals, or -1.
func technicalIndex(name string) int {
	return slices.IndexFunc(technicals[:], func(t technical) bool { return t.name() == name })
}

// riskIndex returns the index of risk in signal.RiskLevels, or -1.
func riskIndex(risk signal.RiskLevel) int { return slices.Index(signal.RiskLevels, risk) }

// directionOf returns the direction of a score. At 0 it is short below the slow average
// and long otherwise.
func directionOf(score float64, belowMean bool) signal.Direction {
	if score < 0 || score == 0 && belowMean {
		return signal.Short
	}
	return signal.Long
}

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

// meanReversion expects the price to return to its mean, with less weight in a strong
// trend.
type meanReversion struct{}

func (meanReversion) name() string { return MeanReversion }

func (meanReversion) score(f *Features) float64 {
	zb := clip3((f.Bar.Close - f.SMA20) / f.SD20)
	zr := clip3((50 - f.RSI14) / 12)
	return (-0.6*zb + 0.4*zr) * clip((45-f.ADX14)/20, 0.25, 1)
}

func (meanReversion) indicators() []string { return []string{"bb_20_2", "rsi_14", "adx_14", "atr_14"} }

func (meanReversion) values(f *Features) map[string]any {
	return map[string]any{
		"bb_20_2": map[string]any{
			"upper": significant(f.SMA20 + 2*f.SD20), "middle": significant(f.SMA20),
			"lower": significant(f.SMA20 - 2*f.SD20), "percent_b": round(percentB(f), 4),
		},
		"rsi_14": round(f.RSI14, 2),
		"adx_14": round(f.ADX14, 2),
		"atr_14": significant(f.ATR14),
	}
}

// percentB is the place of the close between the bands: 0 at the lower one, 1 at
// the upper one.
func percentB(f *Features) float64 { return 0.5 + (f.Bar.Close-f.SMA20)/(4*f.SD20) }

func (meanReversion) finding(f *Features) string {
	return fmt.Sprintf("the close is %+.1f deviations from its 20-bar mean (%%B %.2f) and RSI is %.0f; ADX is %.0f",
		(f.Bar.Close-f.SMA20)/f.SD20, percentB(f), f.RSI14, f.ADX14)
}

// breakout follows a close outside the channel of the 20 bars before; inside it
// leans to the nearer side. Volume above the mean makes it stronger.
type breakout struct{}

func (breakout) name() string { return Breakout }

func (breakout) score(f *Features) float64 {
	c := f.Bar.Close
	var s float64
	switch {
	case c > f.Upper:
		s = 1 + clip((c-f.Upper)/f.ATR14, 0, 2)
	case c < f.Lower:
		s = -1 - clip((f.Lower-c)/f.ATR14, 0, 2)
	case f.Upper > f.Lower:
		s = 0.8 * (2*(c-f.Lower)/(f.Upper-f.Lower) - 1)
	}
	if math.IsNaN(f.VolumeRatio) {
		return s
	}
	return s * (1 + 0.25*clip(math.Log(f.VolumeRatio), -1, 1))
}

func (breakout) indicators() []string { return []string{"donchian_20", "volume_ratio_20", "atr_14"} }

func (breakout) values(f *Features) map[string]any {
	v := map[string]any{
		"donchian_20":     map[string]any{"upper": significant(f.Upper), "lower": significant(f.Lower)},
		"volume_ratio_20": nil,
		"atr_14":          significant(f.ATR14),
	}
	if !math.IsNaN(f.VolumeRatio) {
		v["volume_ratio_20"] = round(f.VolumeRatio, 4)
	}
	return v
}

func (breakout) finding(f *Features) string {
	c, text := f.Bar.Close, ""
	switch {
	case c > f.Upper:
		text = fmt.Sprintf("the close is %.1f ATR above the high of the 20 bars before", (c-f.Upper)/f.ATR14)
	case c < f.Lower:
		text = fmt.Sprintf("the close is %.1f ATR below the low of the 20 bars before", (f.Lower-c)/f.ATR14)
	case f.Upper > f.Lower:
		text = fmt.Sprintf("the close is inside the channel of the 20 bars before, %.0f %% of the way up",
			100*(c-f.Lower)/(f.Upper-f.Lower))
	default:
		text = "the channel of the 20 bars before has no width"
	}
	if math.IsNaN(f.VolumeRatio) {
		return text + "; volume is not known"
	}
	return text + fmt.Sprintf("; volume is %.1f times its 20-bar mean", f.VolumeRatio)
}
