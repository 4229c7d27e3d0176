package strategy

import "fmt"

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
