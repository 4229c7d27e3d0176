package alerts

import "sort"

// maxExtremes bounds the extremes of an asset. A random walk needs about the square root of the
// number of its ticks.
const maxExtremes = 65_536

// extremes finds the highest and the lowest price since any time. Each stack holds the prices that
// no later one has passed.
type extremes struct{ highs, lows []moment }

// moment is a price and when it was seen.
type moment struct {
	at    int64
	price float64
}

// add adds prices seen at a time, which must not be before the last one.
func (x *extremes) add(at int64, low, high float64) {
	for n := len(x.highs); n > 0 && x.highs[n-1].price <= high; n = len(x.highs) {
		x.highs = x.highs[:n-1]
	}
	for n := len(x.lows); n > 0 && x.lows[n-1].price >= low; n = len(x.lows) {
		x.lows = x.lows[:n-1]
	}
	x.highs, x.lows = thinned(append(x.highs, moment{at, high})), thinned(append(x.lows, moment{at, low}))
}

// newest returns the time of the newest prices, or 0.
func (x *extremes) newest() int64 {
	if n := len(x.highs); n > 0 {
		return x.highs[n-1].at
	}
	return 0
}

// thinned returns s, or s without every second moment of its older half if it is too long. An old
// extreme is then replaced by a slightly later one.
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

// since returns the lowest and the highest price after a time, or false without one.
func (x *extremes) since(at int64) (low, high float64, ok bool) {
	h := sort.Search(len(x.highs), func(i int) bool { return x.highs[i].at > at })
	l := sort.Search(len(x.lows), func(i int) bool { return x.lows[i].at > at })
	if h == len(x.highs) || l == len(x.lows) {
		return 0, 0, false
	}
	return x.lows[l].price, x.highs[h].price, true
}
