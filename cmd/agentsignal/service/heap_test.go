package service

import "testing"

func TestTheHeapGrowsByWhatIsAllocated(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, x := range []struct {
		allocated, live uint64
		want            int
	}{
		{0, 30 * mb, 25}, {1 * mb, 30 * mb, 25}, {6 * mb, 30 * mb, 50}, {12 * mb, 30 * mb, 100}, // by what is allocated
		{1000 * mb, 30 * mb, 400}, {1000 * mb, 64 * mb, 200}, {1000 * mb, 100 * mb, 100}, // by the room
		{1000 * mb, 600 * mb, 100}, {2 * mb, 600 * mb, 25}, // by what is live
		{1000 * mb, 0, 400}, {1 * mb, 0, 25}, // little is live
	} {
		if got := heapGrowth(x.allocated, x.live, heapRoom); got != x.want {
			t.Errorf("%d bytes in a second, %d live: %d percent, want %d", x.allocated, x.live, got, x.want)
		}
	}
	if got := heapGrowth(1000*mb, 30*mb, 32*mb); got != 100 {
		t.Errorf("on a small machine: %d percent, want 100", got)
	}
}
