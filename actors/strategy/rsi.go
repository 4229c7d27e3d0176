package strategy

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
