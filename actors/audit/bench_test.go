package audit

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// BenchmarkAudit audits 100,000 closed signals of 20 assets.
func BenchmarkAudit(b *testing.B) {
	s := newStock(b)
	s.rescored()
	made := s.signals
	s.signals = nil
	for i := range 100_000 {
		x := *made[i%len(made)]
		x.ID, x.Asset = signal.NewSignalID(), string(rune('a'+i%20))
		s.signals = append(s.signals, &x)
	}
	for b.Loop() {
		r, _, err := Run(b.Context(), s.sources(), Options{Partitions: []int{0}})
		if err != nil || r.Recomputed != len(s.signals) || r.Live.Same != len(s.signals) {
			b.Fatal(r.Recomputed, r.Live, err)
		}
	}
}
