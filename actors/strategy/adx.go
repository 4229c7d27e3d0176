package strategy

import (
	"math"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

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

// ready reports whether value is the index.
func (a *adx) ready() bool { return a.seeded >= a.n }
