package service

import (
	"slices"
	"testing"
	"time"
)

func TestTheHeapOfAQuietProcessIsKeptSmall(t *testing.T) {
	t.Parallel()
	const live, budget = 100 << 18, quietPercent << 18
	const quiet, usual = quietPercent, usualPercent
	now := time.Now()
	c := &collector{since: now, percent: usual}
	var got []int
	c.set = func(percent int) { got = append(got, percent) }
	var allocated uint64
	for _, x := range []struct {
		after time.Duration
		bytes uint64
		live  uint64
		want  []int // set until then
	}{
		{time.Second, budget + 1, live, nil},
		{quietTime - collectEvery, budget, live, nil},
		{collectEvery - 1, 0, live, []int{quiet}},
		{quietTime, budget, live, []int{quiet}},
		{time.Second, budget, live, []int{quiet}},
		{time.Second, 1, live, []int{quiet, usual}},
		{quietTime, 0, live, []int{quiet, usual, quiet}},
		{time.Second, 0, quietHeap, []int{quiet, usual, quiet, usual}},
		{quietTime, 0, quietHeap - 1, []int{quiet, usual, quiet, usual, quiet}},
	} {
		now = now.Add(x.after)
		allocated += x.bytes
		if c.choose(allocated, x.live, now); !slices.Equal(got, x.want) {
			t.Fatalf("after %d bytes in %s, %d live: set to %v, want %v", x.bytes, x.after, x.live, got, x.want)
		}
	}
	if c.end(); got[len(got)-1] != usual {
		t.Errorf("set to %v at the end, want %d", got, usual)
	}
}

func TestTheHeapOfABusyProcessHasRoom(t *testing.T) {
	t.Parallel()
	now := time.Now()
	got := usualPercent
	c := &collector{room: 128 << 20, since: now, percent: got, set: func(percent int) { got = percent }}
	var allocated uint64
	for _, x := range []struct {
		live uint64
		want int
	}{
		{40 << 20, 300}, {41 << 20, 300}, {0, 400}, {minLive, 400}, {100 << 20, 100}, {1 << 30, 100},
	} {
		now = now.Add(time.Second)
		allocated += x.live + 1
		if c.choose(allocated, x.live, now); got != x.want {
			t.Errorf("%d bytes live: set to %d, want %d", x.live, got, x.want)
		}
	}
	if n := newCollector().room; n == 0 || n > busyRoom {
		t.Errorf("the room on this machine is %d bytes", n)
	}
}
