package simulated

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// The simulated market's process, in hours of market time. The volatility has regimes
// and a slow wave, so that it clusters; innovations have heavy tails; the price reverts over years.
const (
	hoursPerYear    = 8760
	hoursPerDay     = 24
	marketMSPerHour = 3_600_000

	freedom      = 5     // degrees of the t distribution
	commonFactor = 0.6   // correlation of the normal draws within a class
	pull         = 4e-4  // an hour, towards the level
	waveMemory   = 20.0  // hours
	waveStrength = 0.25  // each time the square root of half the memory has passed
	waveCentre   = 0.031 // half of the wave's variance
	volumeSpread = 0.5   // of the logarithm
	weatherDrift = 0.05  // an hour, in units of the deviation, for an anomaly of one
)

// The regimes of a market.
const (
	regimeCalm = iota
	regimeRising
	regimeFalling
	regimeTurbulent
	regimes
)

// Prefixes of the names of generators besides those of assets.
const (
	classStream = "class "
	newsStream  = "news "
)

type regime struct {
	drift      float64 // an hour, in units of the deviation
	volatility float64 // factor
	hours      float64 // mean length
}

var regimeTable = [regimes]regime{
	regimeCalm:      {0, .7, 40},
	regimeRising:    {+.12, .9, 30},
	regimeFalling:   {-.12, 1.0, 25},
	regimeTurbulent: {0, 1.8, 15},
}

// path is the price of one simulated asset with generators of its own. The generator of the class
// yields the same draws to every member, because all members take the same steps.
type path struct {
	// Fixed.
	anchor     float64 // logarithm of the price to which it reverts
	volatility float64 // of an hour
	turnover   float64 // mean volume of an hour
	tick       float64

	// State.
	own, class *rand.PCG
	price      float64 // logarithm
	wave       float64
	regime     int
	left       float64 // hours until the regime ends
	weather    float64 // the anomaly that moves the price; not part of a checkpoint
}

// generator returns the random number generator of a name.
func generator(seed uint64, name string) *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	return rand.NewPCG(seed, h.Sum64())
}

// newPath returns the path of k at its beginning.
func newPath(seed uint64, k *assets.Spec) *path {
	p := fixedPath(k)
	p.own, p.class = generator(seed, k.Symbol), generator(seed, classStream+k.Class)
	p.price = p.anchor
	p.left = rand.New(p.own).ExpFloat64() * regimeTable[p.regime].hours
	return p
}

func fixedPath(k *assets.Spec) *path {
	return &path{anchor: math.Log(k.Price), volatility: k.Volatility / math.Sqrt(hoursPerYear),
		turnover: k.Turnover / hoursPerDay, tick: strategy.TickSize(k.Price)}
}

// step moves the path by dt hours and returns the new price, a multiple of the tick size, and the
// volume in between.
func (p *path) step(dt float64) (price, volume float64) {
	own, class := rand.New(p.own), rand.New(p.class)
	root := math.Sqrt(dt)
	z := math.Sqrt(commonFactor)*class.NormFloat64() + math.Sqrt(1-commonFactor)*own.NormFloat64()
	var chi float64
	for range freedom {
		n := own.NormFloat64()
		chi += n * n
	}
	// A t variable has the variance freedom/(freedom-2); it is scaled to 1.
	epsilon := z * math.Sqrt((freedom-2)/chi)
	r := regimeTable[p.regime]
	level := r.volatility * math.Exp(p.wave-waveCentre)
	s := p.volatility * level
	p.price += (r.drift+weatherDrift*p.weather)*s*dt + s*root*epsilon - pull*(p.price-p.anchor)*dt
	p.wave += -p.wave*dt/waveMemory + waveStrength*root/math.Sqrt(waveMemory/2)*own.NormFloat64()

	volume = p.turnover * dt * level * (.5 + .7*math.Abs(epsilon)) *
		math.Exp(volumeSpread*own.NormFloat64()-volumeSpread*volumeSpread/2)
	if p.left -= dt; p.left <= 0 {
		// Uniformly one of the other three.
		p.regime = (p.regime + 1 + own.IntN(regimes-1)) % regimes
		p.left = own.ExpFloat64() * regimeTable[p.regime].hours
	}
	price = math.Max(roundTo(math.Exp(p.price), p.tick), p.tick)
	if volume > 0 {
		volume = roundTo(volume, strategy.TickSize(volume))
	}
	return price, volume
}

// roundTo returns the multiple of step that is nearest to price. Steps below 1 are powers of ten
// with an integer inverse, so that the result is the float nearest to the decimal.
func roundTo(price, step float64) float64 {
	if step < 1 {
		inverse := math.Round(1 / step)
		return math.Round(price*inverse) / inverse
	}
	return math.Round(price/step) * step
}

// Walk returns n bars of a timeframe of a simulated asset for a seed, from 2020-01-01 UTC on. They
// follow the process of the simulated market with walkPoints points a bar. Walk returns nil for an
// unknown asset or timeframe.
func Walk(seed uint64, asset string, tf signal.Timeframe, n int) []marketdata.Bar {
	k := assets.Find(asset)
	frame, ok := prices.FrameOf(tf)
	if k == nil || !ok {
		return nil
	}
	const begin = 1_577_836_800_000
	p := newPath(seed, k)
	step := prices.FrameMS[frame] / walkPoints
	bars := make([]marketdata.Bar, 0, n)
	last := roundTo(math.Exp(p.price), p.tick)
	for i := range n {
		open := begin + int64(i)*prices.FrameMS[frame]
		b := marketdata.Bar{OpenTime: open, CloseTime: open + prices.FrameMS[frame], Open: last, High: last, Low: last}
		for range walkPoints {
			price, volume := p.step(float64(step) / marketMSPerHour)
			b.High, b.Low, b.Close = max(b.High, price), min(b.Low, price), price
			b.Volume += volume
		}
		last = b.Close
		bars = append(bars, b)
	}
	return bars
}

// walkPoints is the number of points in a bar of Walk.
const walkPoints = 24

// assembler builds the bars of a simulated asset: those of the finest timeframe from the points of its
// path, and the others from the next finer ones. While the path takes coarse steps there are no fine bars.
type assembler struct {
	grid   prices.Grid
	finest int
	part   [prices.Timeframes]marketdata.Bar // the open bar of each timeframe; CloseTime is 0 without one
}

// start sets the finest timeframe that is built from now on. Finer bars that are open go into the
// coarser ones.
func (a *assembler) start(finest int) {
	for frame := prices.M1; frame < finest; frame++ {
		if a.part[frame].CloseTime != 0 {
			a.join(frame+1, a.part[frame])
			a.part[frame] = marketdata.Bar{}
		}
	}
	a.finest = finest
}

// add adds a point of the path, which must be later than the one before, and passes the bars that
// end by then to out.
func (a *assembler) add(ms int64, price, volume float64, out func(frame int, b marketdata.Bar)) {
	for frame := prices.M1; frame < prices.Timeframes; frame++ {
		b := a.part[frame]
		if b.CloseTime == 0 || b.CloseTime > ms {
			continue
		}
		a.part[frame] = marketdata.Bar{}
		if frame < prices.D1 {
			a.join(frame+1, b)
		}
		out(frame, b)
	}
	a.join(a.finest, marketdata.Bar{OpenTime: ms, Open: price, High: price, Low: price, Close: price, Volume: volume})
}

// join adds part to the open bar of a frame, or opens one with it.
func (a *assembler) join(frame int, part marketdata.Bar) {
	if a.part[frame].CloseTime != 0 {
		prices.Merge(&a.part[frame], &part)
		return
	}
	part.OpenTime, part.CloseTime = a.grid.Interval(frame, part.OpenTime)
	a.part[frame] = part
}
