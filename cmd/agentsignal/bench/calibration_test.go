package bench

import (
	"math"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// TestConfidenceIsTheShareOfWonSignals is a part of agentsignal bench calibration.
func TestConfidenceIsTheShareOfWonSignals(t *testing.T) {
	t.Parallel()
	const signals = 1500
	s, err := onWalks(t.Context(), strategy.Momentum, signal.LowRisk, signals)
	if err != nil {
		t.Fatal(err)
	}
	if s.Count < signals || math.Abs(float64(s.MeanConfidence-s.HitRate)) > calibrationMiss {
		t.Errorf("of %d signals with a mean confidence of %.4f, %.4f won", s.Count, s.MeanConfidence, s.HitRate)
	}
	found, err := onMarket(t.Context(), calibrationAssets[:2])
	if err != nil {
		t.Fatal(err)
	}
	for after, r := range found {
		first, now := skill(r.first, r.won), skill(r.now, r.won)
		if len(r.won) < 300 || now < .1 || now < first+.1 {
			t.Errorf("after %d bars: %d signals, skill %.4f re-scored, %.4f without", after, len(r.won), now, first)
		}
	}
}
