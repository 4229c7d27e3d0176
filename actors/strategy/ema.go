package strategy

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

// ready reports whether value is the average.
func (a *average) ready() bool { return a.count >= a.n }

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
