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
	for _, rate := range []uint64{quietRate * 2, quietRate / 2, quietRate / 4, quietRate, quietRate / 2} {
		now = now.Add(settleEvery)
		allocated += rate * uint64(settleEvery/time.Second)
		c.choose(allocated, now)
	}
	c.end()
	if want := []int{quietPercent, usualPercent, quietPercent, usualPercent}; !slices.Equal(got, want) {
		t.Errorf("set to %v, want %v", got, want)
	}
}
