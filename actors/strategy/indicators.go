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

// average is the state of an average that starts with the mean of its first n values.
type average struct {
	n     int
	count int
	value float64 // the sum of the values until the n-th, then the average
}

// seed adds x to the first n values. It returns false after them.
func (a *average) seed(x float64) bool {
	a.count++
	if a.count > a.n {
		return false
	}
	a.value += x
	if a.count == a.n {
		a.value /= float64(a.n)
	}
	return true
}

// ema is the exponential moving average of n values, whose weight k is 2/(n+1).
type ema struct{ average }

func newEMA(n int) ema { return ema{average{n: n}} }

func (e *ema) add(x float64) {
	if !e.seed(x) {
		e.value += (x - e.value) * 2 / float64(e.n+1)
	}
}

// wilder is Wilder's moving average of n values, in which each value counts 1/n.
type wilder struct{ average }

func newWilder(n int) wilder { return wilder{average{n: n}} }

func (w *wilder) add(x float64) {
	if !w.seed(x) {
		w.value = (w.value*float64(w.n-1) + x) / float64(w.n)
	}
}

// trueRange is the distance that the price covered from the previous close to
// the extremes of b.
func trueRange(previousClose float64, b marketdata.Bar) float64 {
	return max(b.High-b.Low, math.Abs(b.High-previousClose), math.Abs(b.Low-previousClose))
}

// rsi is Wilder's relative strength index. Without any movement it is 50.
type rsi struct{ gain, loss wilder }

func newRSI(n int) rsi { return rsi{newWilder(n), newWilder(n)} }

// add adds the change from one close to the next.
func (r *rsi) add(change float64) {
	r.gain.add(max(change, 0))
	r.loss.add(max(-change, 0))
}

// value returns the index, 0 to 100.
func (r *rsi) value() float64 {
	sum := r.gain.value + r.loss.value
	if sum == 0 {
		return 50
	}
	return 100 * r.gain.value / sum
}

// adx is Wilder's average directional index by the conventions of TA-Lib: the
// sums are seeded with n-1 terms and then follow s += x - s/n; the index itself
// is seeded with the mean of n values of DX.
type adx struct {
	n               int
	count           int // bars after the first
	plus, minus, tr float64
	seeded          int     // values of DX in the seed
	value           float64 // their sum until there are n, then the index, 0 to 100
}

// add takes a bar and its predecessor.
func (a *adx) add(previous, b marketdata.Bar) {
	up, down := b.High-previous.High, previous.Low-b.Low
	var plus, minus float64
	switch {
	case up > down && up > 0:
		plus = up
	case down > up && down > 0:
		minus = down
	}
	tr := trueRange(previous.Close, b)
	a.count++
	if a.count < a.n {
		a.plus, a.minus, a.tr = a.plus+plus, a.minus+minus, a.tr+tr
		return
	}
	n := float64(a.n)
	a.plus += plus - a.plus/n
	a.minus += minus - a.minus/n
	a.tr += tr - a.tr/n
	a.addDX()
}

// addDX updates the index. Without any movement there is no DX: it counts as 0 in the
// seed and leaves the index unchanged afterwards.
func (a *adx) addDX() {
	var dx float64
	known := false
	if p, m := a.directional(); p+m > 0 {
		dx, known = 100*math.Abs(p-m)/(p+m), true
	}
	n := float64(a.n)
	switch {
	case a.seeded < a.n:
		a.seeded++
		a.value += dx
		if a.seeded == a.n {
			a.value /= n
		}
	case known:
		a.value = (a.value*(n-1) + dx) / n
	}
}

// directional returns +DI and -DI, 0 to 100.
func (a *adx) directional() (plus, minus float64) {
	if a.tr == 0 {
		return 0, 0
	}
	return 100 * a.plus / a.tr, 100 * a.minus / a.tr
}

// bollinger returns the mean of the bars' closes and their population standard
// deviation; the bands lie two deviations away. Deviations are taken from the
// first close, so that equal closes give exactly 0.
func bollinger(bars []marketdata.Bar) (mean, deviation float64) {
	origin, n := bars[0].Close, float64(len(bars))
	var sum float64
	for i := range bars {
		sum += bars[i].Close - origin
	}
	offset := sum / n
	var squares float64
	for i := range bars {
		d := bars[i].Close - origin - offset
		squares += d * d
	}
	return origin + offset, math.Sqrt(squares / n)
}

// donchian returns the highest high and the lowest low of bars. The current bar is not
// part of its own channel.
func donchian(bars []marketdata.Bar) (upper, lower float64) {
	upper, lower = bars[0].High, bars[0].Low
	for i := range bars {
		upper, lower = max(upper, bars[i].High), min(lower, bars[i].Low)
	}
	return upper, lower
}

// sigma returns the sample standard deviation of xs, at least two values. It is exactly 0
// for equal values.
func sigma(xs []float64) float64 {
	origin, n := xs[0], float64(len(xs))
	var sum float64
	for _, x := range xs {
		sum += x - origin
	}
	offset := sum / n
	var squares float64
	for _, x := range xs {
		d := x - origin - offset
		squares += d * d
	}
	return math.Sqrt(squares / (n - 1))
}

// clip returns x limited to the range lo to hi.
func clip(x, lo, hi float64) float64 { return max(lo, min(hi, x)) }

// clip3 limits a standardised value to the range that the strategies use.
func clip3(x float64) float64 { return clip(x, -3, 3) }

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// round returns x rounded to the given number of decimals, which may be negative.
func round(x float64, decimals int) float64 {
	p := math.Pow10(decimals)
	if !(math.Abs(x)*p < 1<<53) {
		return x // has no further decimals, or is not finite
	}
	if decimals < 0 {
		p = math.Pow10(-decimals)
		return math.Round(x/p) * p
	}
	return math.Round(x*p) / p
}

// significant returns x rounded to 8 significant digits.
func significant(x float64) float64 {
	if x == 0 || !finite(x) {
		return x
	}
	return round(x, 7-int(math.Floor(math.Log10(math.Abs(x)))))
}
