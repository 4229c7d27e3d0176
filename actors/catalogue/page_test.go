package catalogue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSortPartEqualsAWholeSort(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		all := make([]candidate, 1+r.IntN(300))
		spread := 1 + r.Uint64N(1<<r.IntN(20)) // some have equal times, some equal halves of identifiers
		for i := range all {
			all[i] = candidate{ms: r.Int64N(3), idHigh: r.Uint64N(spread), idLow: uint64(i), row: uint32(i)}
		}
		if r.IntN(2) == 0 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		want := slices.Clone(all)
		slices.SortFunc(want, func(x, y candidate) int {
			if x.before(&y) {
				return -1
			}
			return 1
		})
		from := r.IntN(len(all))
		to := from + r.IntN(len(all)-from+1)
		sortPart(all, from, to)
		if diff := cmp.Diff(want[from:to], all[from:to], cmp.AllowUnexported(candidate{})); diff != "" {
			t.Fatalf("%d to %d of %d (-want +got):\n%s", from, to, len(all), diff)
		}
	}
}
