package assets

import (
	"math"
	"math/big"
	"strconv"
)

// maxDecimals is the greatest number of decimals of a price.
const maxDecimals = 10

// PriceText returns a price of an asset as a trader writes it. The class of the asset and the size of the
// price decide on the decimals. Prices that stand beside it are given in among: the size of the first of
// these then decides, so that all have as many decimals, and there are more if two different ones would
// look the same. Nil ones do not count. Halves are rounded away from zero.
//
// The console does the same: http/console/src/format.json has examples, with which tests of both agree.
func PriceText(asset string, price float64, among ...*float64) string {
	size := price
	if len(among) > 0 && among[0] != nil {
		size = *among[0]
	}
	d := usualDecimals(ClassOf(asset), math.Abs(size))
	for d < maxDecimals && someLookTheSame(among, d) {
		d++
	}
	return fixed(price, d)
}

func usualDecimals(class string, size float64) int {
	switch {
	case class == FX && size >= 20: // yen
		return 3
	case class == FX:
		return 5
	case class == Commodity && size < 10:
		return 3
	case size >= 100 || size == 0 || class != "" && class != Crypto && size >= 1:
		return 2
	case size >= 1:
		return 4
	}
	d := 3
	for ; size < 1 && d < maxDecimals; d++ { // four digits; a logarithm could differ from the console's at powers of ten
		size *= 10
	}
	return d
}

// someLookTheSame reports whether two different prices have the same text with d decimals.
func someLookTheSame(prices []*float64, d int) bool {
	seen := map[string]float64{}
	for _, p := range prices {
		if p == nil {
			continue
		}
		text := fixed(*p, d)
		if other, ok := seen[text]; ok && other != *p {
			return true
		}
		seen[text] = *p
	}
	return false
}

// fixed returns x with d decimals. It rounds the shortest decimal number that means x, which is the one in
// the API's answers: formatting x itself would round 1.005, which is a little less in binary, down.
func fixed(x float64, d int) string {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		return strconv.FormatFloat(x, 'f', d, 64) // no number
	}
	return exact.FloatString(d)
}
