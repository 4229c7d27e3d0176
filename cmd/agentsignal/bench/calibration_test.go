package bench

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
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
	markets := []assetBars{
		{"BTC", "crypto", simulated.Walk(calibrationSeed, "BTC", signal.H1, calibrationBars)},
		{"EURUSD", "fx", simulated.Walk(calibrationSeed, "EURUSD", signal.H1, calibrationBars)},
	}
	all, err := measureMarkets(t.Context(), markets, strategy.Momentum, signal.H1, signal.MediumRisk)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{2, 5, 10} {
		now, kept := all.sum.now[after].statistics(), all.sum.kept[after].statistics()
		if now.Count < 200 || now.BrierSkill < .1 || now.BrierSkill < kept.BrierSkill+.1 {
			t.Errorf("after %d bars: %d signals, skill %.4f re-scored, %.4f without", after, now.Count,
				now.BrierSkill, kept.BrierSkill)
		}
	}
	gross, _ := all.sum.first.breakEvens()
	if told := all.sum.told.BreakEven / float64(len(all.sum.first)); math.Abs(told-gross) > .02 {
		t.Errorf("break-even told %.4f, seen %.4f", told, gross)
	}
}

// TestMarketsGiveTheSameFigures checks that the figures of markets that share a pool do not
// depend on which of them is replayed first.
func TestMarketsGiveTheSameFigures(t *testing.T) {
	t.Parallel()
	var markets []assetBars
	for _, asset := range []string{"BTC", "EURUSD", "SPY"} {
		markets = append(markets, assetBars{asset, "", simulated.Walk(calibrationSeed, asset, signal.H1, 2000)})
	}
	var first backtest.Statistics
	for turn := range 3 {
		all, err := measureMarkets(t.Context(), markets, strategy.Momentum, signal.H1, signal.MediumRisk)
		if err != nil {
			t.Fatal(err)
		}
		s := all.sum.first.statistics()
		if turn == 0 {
			first = s
		}
		if s.Count != first.Count || math.Abs(float64(s.MeanConfidence-first.MeanConfidence)) > 1e-9 {
			t.Errorf("turn %d: %d signals with a mean confidence of %v, before %d with %v", turn, s.Count,
				s.MeanConfidence, first.Count, first.MeanConfidence)
		}
		slices.Reverse(markets)
	}
}

// TestCalibrationOnFiles checks that files give the figures of the bars that they hold.
func TestCalibrationOnFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bars := simulated.Walk(calibrationSeed, "ETH", signal.H1, 900)
	var text strings.Builder
	text.WriteString("time,open,high,low,close,volume\n")
	for _, b := range bars {
		fmt.Fprintf(&text, "%d,%v,%v,%v,%v,%v\n", b.OpenTime, b.Open, b.High, b.Low, b.Close, b.Volume)
	}
	file := filepath.Join(dir, "eth_1h.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var fromFile, fromBars bytes.Buffer
	b := &bench{out: &fromFile, files: barFiles{[]string{file}, "1h", "medium"}}
	if err := b.calibration(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = &bench{out: &fromBars}
	for i := range bars {
		bars[i].CloseTime = bars[i].OpenTime + signal.H1.Duration().Milliseconds()
	}
	if err := b.onMarkets(t.Context(), []assetBars{{"ETH", "crypto", bars}}, signal.H1, signal.MediumRisk); err != nil {
		t.Fatal(err)
	}
	if fromFile.String() != fromBars.String() || !strings.Contains(fromFile.String(), "ETH, breakout") {
		t.Errorf("from the file:\n%s\nfrom bars:\n%s", &fromFile, &fromBars)
	}
	for _, flags := range []barFiles{
		{[]string{file, file}, "1h", "medium"},
		{[]string{filepath.Join(dir, "none.csv")}, "1h", "medium"},
		{[]string{file}, "2h", "medium"},
		{[]string{file}, "1h", "wild"},
	} {
		b := &bench{out: &fromFile, files: flags}
		if err := b.calibration(t.Context()); err == nil {
			t.Errorf("%+v is accepted", flags)
		}
	}
}
