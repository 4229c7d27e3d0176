package service

import (
	"slices"
	"testing"
	"time"
)

func TestTheHeapOfAQuietProcessIsKeptSmall(t *testing.T) {
	t.Parallel()
	var got []int
	now := time.Now()
	c := &collector{at: now, percent: usualPercent, set: func(percent int) { got = append(got, percent) }}
	var allocated uint64
	for _, x := range []struct{ rate, live uint64 }{
		{quietRate * 2, 1}, {quietRate / 2, 1}, {quietRate / 4, 1}, {quietRate, 1}, {1, quietHeap - 1}, {1, quietHeap}, {1, 1},
	} {
		now = now.Add(settleEvery)
		allocated += x.rate * uint64(settleEvery/time.Second)
		c.choose(allocated, x.live, now)
	}
	c.end()
	const quiet, usual = quietPercent, usualPercent
	if want := []int{quiet, usual, quiet, usual, quiet, usual}; !slices.Equal(got, want) {
		t.Errorf("set to %v, want %v", got, want)
	}
}
