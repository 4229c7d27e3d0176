package prices

import (
	"testing"

	"pgregory.net/rapid"
)

const (
	earliestMS = 1_000_000_000_000
	pointMS    = 6_000
)

func TestBarsTileTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{rapid.Int64Range(1, 3600).Draw(t, "speed")}
		ms := rapid.Int64Range(earliestMS, 4*earliestMS).Draw(t, "ms")
		frame := rapid.IntRange(M1, D1).Draw(t, "frame")
		from, to := g.Interval(frame, ms)
		if from > ms || ms >= to {
			t.Fatalf("%d is not in [%d, %d)", ms, from, to)
		}
		if !g.Aligned(frame, from) || !g.Aligned(frame, to) {
			t.Fatalf("[%d, %d) is not aligned", from, to)
		}
		if next, _ := g.Interval(frame, to); next != to {
			t.Fatalf("the bar after [%d, %d) opens at %d", from, to, next)
		}
		if frame < D1 && (!g.Aligned(M1, from) || g.index(frame+1, from) != g.index(frame+1, to-1)) {
			t.Fatalf("[%d, %d) lies across coarser bars", from, to)
		}
		if at := g.Reached(ms, pointMS); g.Wall(at) > ms || g.Wall(at+pointMS) <= ms {
			t.Fatalf("the last point by %d is at %d", ms, g.Wall(at))
		}
	})
}

func TestCompressedBarsAreMultiplesOfTheirLength(t *testing.T) {
	t.Parallel()
	g := Grid{60}
	for frame, length := range map[int]int64{M1: 1_000, M5: 5_000, H1: 60_000, D1: 1_440_000} {
		from, to := g.Interval(frame, 1_795_253_400_123)
		if from%length != 0 || to-from != length {
			t.Errorf("bar of %d ms is [%d, %d)", length, from, to)
		}
	}
}
