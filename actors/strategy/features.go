package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Lengths of the indicators in bars, the same for all timeframes.
const (
	fastEMA      = 12
	slowEMA      = 26
	wilderLength = 14 // RSI, ATR, ADX
	bandLength   = 20 // Bollinger, Donchian, relative volume
	shortMove    = 10
	longMove     = 40
	sigmaLength  = 100
)

// Features are the indicators of one bar. They depend on that bar and those
// before it.
type Features struct {
	Bar                marketdata.Bar
	EMA12, EMA26       float64
	RSI14, ADX14       float64 // 0 to 100
	ATR14              float64 // price units
	SMA20, SD20        float64 // of closes; SD20 is the population's
	Upper, Lower       float64 // Donchian channel of the 20 bars before
	VolumeRatio        float64 // to the mean of the last 20 bars; NaN if volume is unknown
	Sigma              float64 // sample deviation of the last 100 log returns
	Move10, Move40     float64 // log returns of the last 10 and 40 bars
	ready, hasMovement bool
}

// indicators is the recursive state after a bar. A copy is kept so that the last bar can
// be replaced.
type indicators struct {
	fast, slow ema
	strength   rsi
	atr        wilder
	trend      adx
}

func newIndicators() indicators {
	return indicators{
		fast: newEMA(fastEMA), slow: newEMA(slowEMA),
		strength: newRSI(wilderLength), atr: newWilder(wilderLength), trend: adx{n: wilderLength},
	}
}

// add adds the next bar; previous is nil for the first one.
func (x *indicators) add(previous *marketdata.Bar, b marketdata.Bar) {
	x.fast.add(b.Close)
	x.slow.add(b.Close)
	if previous == nil {
		return
	}
	x.strength.add(b.Close - previous.Close)
	x.atr.add(trueRange(previous.Close, b))
	x.trend.add(*previous, b)
}

// features returns the indicators at the last of bars. seen counts the bars since the
// series began; returns holds the log return of each bar.
func (x *indicators) features(bars []marketdata.Bar, returns []float64, seen int) Features {
	n := len(bars)
	b := bars[n-1]
	f := Features{Bar: b, VolumeRatio: math.NaN()}
	if seen <= warmUp {
		return f
	}
	f.EMA12, f.EMA26 = x.fast.value, x.slow.value
	f.RSI14, f.ATR14, f.ADX14 = x.strength.value(), x.atr.value, x.trend.value
	f.SMA20, f.SD20 = bollinger(bars[n-bandLength:])
	f.Upper, f.Lower = donchian(bars[n-1-bandLength : n-1])
	f.VolumeRatio = volumeRatio(bars[n-bandLength:])
	f.Sigma = sigma(returns[n-sigmaLength:])
	f.Move10 = math.Log(b.Close / bars[n-1-shortMove].Close)
	f.Move40 = math.Log(b.Close / bars[n-1-longMove].Close)
	f.ready = true
	f.hasMovement = f.Sigma > 0 && f.SD20 > 0 && f.ATR14 > 0
	return f
}

// volumeRatio returns the volume of the last bar over the mean of all, without the bars
// that fill gaps. It is NaN if the volume of the last bar is unknown.
func volumeRatio(bars []marketdata.Bar) float64 {
	last := bars[len(bars)-1]
	var sum, n float64
	for i := range bars {
		if !bars[i].Flat {
			sum, n = sum+bars[i].Volume, n+1
		}
	}
	if last.Flat || sum <= 0 {
		return math.NaN()
	}
	return last.Volume / (sum / n)
}
