package main

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

// TestConfidenceIsTheShareOfWonSignals is a part of agentsignal-bench calibration.
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
		marketOf("BTC", "crypto", simulated.Walk(calibrationSeed, "BTC", signal.H1, calibrationBars)),
		marketOf("EURUSD", "fx", simulated.Walk(calibrationSeed, "EURUSD", signal.H1, calibrationBars)),
	}
	all, err := measureMarkets(t.Context(), markets, pooled(t, markets), strategy.Momentum, signal.H1, signal.MediumRisk)
	if err != nil {
		t.Fatal(err)
	}
	for i, after := range rescoredAfter[:3] {
		if now := all.rescored(i).statistics(); now.Count < 200 || now.BrierSkill < .1 {
			t.Errorf("after %d bars: %d signals, skill %.4f re-scored", after, now.Count, now.BrierSkill)
		}
	}
	gross, _ := all.breakEvens()
	if told, _ := all.mean(func(m *measuredSignal) float64 { return m.BreakEven }); math.Abs(told-gross) > .02 {
		t.Errorf("break-even told %.4f, seen %.4f", told, gross)
	}
}

// TestMarketsGiveTheSameFigures checks that the figures of markets that share a pool do not
// depend on which of them is replayed first.
func TestMarketsGiveTheSameFigures(t *testing.T) {
	t.Parallel()
	var markets []assetBars
	for _, asset := range []string{"BTC", "EURUSD", "SPY"} {
		markets = append(markets, marketOf(asset, "", simulated.Walk(calibrationSeed, asset, signal.H1, 2000)))
	}
	var first backtest.Statistics
	for turn := range 3 {
		all, err := measureMarkets(t.Context(), markets, pooled(t, markets), strategy.Momentum, signal.H1, signal.MediumRisk)
		if err != nil {
			t.Fatal(err)
		}
		s := all.statistics()
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
	b := &calibrationBenchmark{report: &report{out: &fromFile}, files: barFiles{names: []string{file}, risk: "medium", cost: math.NaN()}}
	if err := b.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = &calibrationBenchmark{report: &report{out: &fromBars}}
	for i := range bars {
		bars[i].CloseTime = bars[i].OpenTime + signal.H1.Duration().Milliseconds()
	}
	if err := b.onMarkets(t.Context(), []assetBars{marketOf("ETH", "crypto", bars)}, signal.H1, signal.MediumRisk); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(fromFile.String(), "bars: ")
	_, after, _ = strings.Cut(after, "\n")
	used, figures, _ := strings.Cut(after, "\n")
	if !strings.Contains(used, "class crypto, cost 10 basis points a side") {
		t.Errorf("the class and the cost used: %s", used)
	}
	if figures != fromBars.String() || !strings.Contains(fromFile.String(), "top decile of expected R after costs") {
		t.Errorf("from the file:\n%s\nfrom bars:\n%s", &fromFile, &fromBars)
	}
	for _, flags := range []barFiles{
		{names: []string{file, file}, risk: "medium"},
		{names: []string{filepath.Join(dir, "none.csv")}, risk: "medium"},
		{names: []string{file}, timeframe: "2h", risk: "medium"},
		{names: []string{file}, timeframe: "1d", risk: "medium"},
		{names: []string{file}, risk: "wild"},
		{names: []string{file}, risk: "medium", classes: []string{"bonds"}, cost: math.NaN()},
		{names: []string{file}, risk: "medium", cost: 1001},
		{names: []string{file}, risk: "medium", dates: "day"},
		{names: []string{file}, risk: "medium", decimal: "dot"},
	} {
		b := &calibrationBenchmark{report: &report{out: &fromFile}, files: flags}
		if err := b.measure(t.Context()); err == nil {
			t.Errorf("%+v is accepted", flags)
		}
	}
}

// TestMeasuredSignals checks the figures of the tables on signals whose ends are known.
func TestMeasuredSignals(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[string]string{
		"the past speaks for an edge": "an edge", "the past speaks for a loss": "a loss", "no evidence of an edge": "",
	} {
		if got := claimIn(verdict); got != want {
			t.Errorf("%q claims %q, want %q", verdict, got, want)
		}
	}
	const day, month = 86_400_000, 31 * 86_400_000
	var x measured
	for i := range int64(400) { // of four months, all signals of which end alike; then of cells that differ
		m := measuredSignal{asset: "A", createdAt: i%4*month + i*day/100}
		m.Confidence, m.Interval, m.R = .5, [2]float64{.48, .52}, float64(i%2)*2-1
		x = append(x, m)
	}
	if mean, err := x.mean((*measuredSignal).net); mean != 0 || math.Abs(err-.5) > 1e-12 {
		t.Errorf("mean %v ± %v, want 0 ± 0.5, as of four observations", mean, err)
	}
	for i := range x[:200] { // half of them would then close in profit in one cell, all in the other
		x[i].asset, x[i].R = "B", 1
	}
	if covered, cells := x.intervals(); covered != 1 || cells != 2 {
		t.Errorf("%d of %d intervals cover, want 1 of 2", covered, cells)
	}
}

// pooled returns the outcomes of markets of 1h.
func pooled(t *testing.T, markets []assetBars) *strategy.Pool {
	t.Helper()
	pool, err := poolOf(markets, signal.H1)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}
