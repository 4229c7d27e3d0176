package leaves

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// BenchmarkCheckLeaves compares 10,000 leaves with their entries.
func BenchmarkCheckLeaves(b *testing.B) {
	t := newLeafBench(b)
	account := storetest.AccountIn(t.store, 1)
	for range 5000 {
		t.create(account, true)
	}
	t.appendAll(t.store, 1)
	for b.Loop() {
		c, err := t.store.CheckLeaves(b.Context(), 1, time.Now().Add(-time.Hour))
		if err != nil || c.Compared != 10_000 {
			b.Fatal(c, err)
		}
	}
}
