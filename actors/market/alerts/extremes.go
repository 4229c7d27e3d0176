package alerts

import "slices"

// maxExtremes bounds what is remembered of an asset's extremes. A price that wanders
// needs about the square root of the number of its ticks.
const maxExtremes = 65_536

// extremes knows the highest and the lowest price since any time. Each of its stacks
// holds those prices that no later one has passed.
type extremes struct{ highs, lows []moment }

// moment is a price and when it was seen.
type moment struct {
	at    int64
	price float64
}

// note adds prices that were seen at a time, which is not before the last one.
func (x *extremes) note(at int64, low, high float64) {
	for n := len(x.highs); n > 0 && x.highs[n-1].price <= high; n = len(x.highs) {
		x.highs = x.highs[:n-1]
	}
	for n := len(x.lows); n > 0 && x.lows[n-1].price >= low; n = len(x.lows) {
		x.lows = x.lows[:n-1]
	}
	x.highs, x.lows = thinned(append(x.highs, moment{at, high})), thinned(append(x.lows, moment{at, low}))
}

// thinned returns s, without every second of its older half if it is too long: then an
// extreme of long ago is one of a little later.
func thinned(s []moment) []moment {
	if len(s) < maxExtremes {
		return s
	}
	half := len(s) / 2
	kept := s[:0]
	for i := 1; i < half; i += 2 {
		kept = append(kept, s[i])
	}
	return append(kept, s[half:]...)
}

// since returns the lowest and the highest price after a time, or false if there was
// none.
func (x *extremes) since(at int64) (low, high float64, ok bool) {
	later := func(s []moment) int {
		i, _ := slices.BinarySearchFunc(s, at, func(m moment, at int64) int {
			if m.at <= at {
				return -1
			}
			return 1
		})
		return i
	}
	h, l := later(x.highs), later(x.lows)
	if h == len(x.highs) || l == len(x.lows) {
		return 0, 0, false
	}
	return x.lows[l].price, x.highs[h].price, true
}
