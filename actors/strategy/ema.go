package strategy

// ema is the exponential moving average of n values. Its seed is the mean of the
// first n; k is 2/(n+1).
type ema struct {
	n     int
	count int
	value float64 // the sum of the values until the n-th, then the average
}

func (e *ema) add(x float64) {
	e.count++
	switch {
	case e.count < e.n:
		e.value += x
	case e.count == e.n:
		e.value = (e.value + x) / float64(e.n)
	default:
		e.value += (x - e.value) * 2 / float64(e.n+1)
	}
}

// ready reports whether value is the average.
func (e *ema) ready() bool { return e.count >= e.n }

// wilder is Wilder's moving average of n values: the seed is the mean of the
// first n, then each value counts 1/n.
type wilder struct {
	n     int
	count int
	value float64 // the sum of the values until the n-th, then the average
}

func (w *wilder) add(x float64) {
	w.count++
	switch {
	case w.count < w.n:
		w.value += x
	case w.count == w.n:
		w.value = (w.value + x) / float64(w.n)
	default:
		w.value = (w.value*float64(w.n-1) + x) / float64(w.n)
	}
}

// ready reports whether value is the average.
func (w *wilder) ready() bool { return w.count >= w.n }
