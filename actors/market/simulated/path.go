package simulated

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/agentsignal/agentsignal/actors/market/assets"
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
