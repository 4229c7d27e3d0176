package strategy

import (
	"fmt"
	"math"
)

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
