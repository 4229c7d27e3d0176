package assets

import (
	"math"
	"strconv"
)

// maxDecimals is the greatest number of decimals of a price.
const maxDecimals = 10

// Decimals returns how many decimals a trader writes of a price of an asset: by the class of the asset and
// the size of the price, and more if those of among, prices that stand beside it, would look the same. Nil
// ones do not count.
func Decimals(asset string, price float64, among ...*float64) int {
	d := usualDecimals(asset, math.Abs(price))
	for ; d < maxDecimals; d++ {
		seen := map[string]float64{}
		same := false
		for _, x := range among {
			if x == nil {
				continue
			}
			text := strconv.FormatFloat(*x, 'f', d, 64)
			if other, ok := seen[text]; ok && other != *x {
				same = true
			}
			seen[text] = *x
		}
		if !same {
			break
		}
	}
	return d
}

func usualDecimals(asset string, x float64) int {
	class := ClassOf(asset)
	switch {
	case class == FX && x >= 20: // yen
		return 3
	case class == FX:
		return 5
	case class == Commodity && x < 10:
		return 3
	case x >= 100 || x == 0 || class != "" && class != Crypto && x >= 1:
		return 2
	case x >= 1:
		return 4
	}
	return min(3+int(math.Ceil(-math.Log10(x))), maxDecimals)
}
