package main

import (
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// statisticsText returns what the command prints of n signals, of which the second and every third won; a
// fifth of them have a confidence below 0.4.
func statisticsText(t *testing.T, n int) string {
	t.Helper()
	var outcomes []backtest.Outcome
	for i := range n {
		o := backtest.Outcome{At: int64(i), R: -1, Confidence: .42, Reason: signal.StopLoss}
		if i%3 == 0 || i == 1 {
			o.R, o.Reason = 1.5, signal.TakeProfit
		}
		if i%5 == 0 {
			o.Confidence = .38
		}
		outcomes = append(outcomes, o)
	}
	s := backtest.Summarize(outcomes)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	printStatistics(w, &s)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFewSignalsAreShownAsCounts checks that no share of fewer than 30 signals is printed, of
// all and of each range of confidence.
func TestFewSignalsAreShownAsCounts(t *testing.T) {
	t.Parallel()
	rates := []string{"hit rate", "95 %", "Brier", "slope", "0.4 to 0.5"}
	few := statisticsText(t, backtest.MinForRates-1)
	for _, rate := range rates {
		if strings.Contains(few, rate) {
			t.Errorf("%q is printed of 29 signals:\n%s", rate, few)
		}
	}
	if !strings.Contains(few, "closed in profit           11 (") {
		t.Errorf("29 signals are printed as\n%s", few)
	}
	many := statisticsText(t, backtest.MinForRates)
	buckets := []string{"0.3 to 0.4  6        0.3800  2 of 6\n", "0.4 to 0.5  24       0.4200  9 of 24\n"}
	for _, rate := range append(rates, buckets...) {
		if !strings.Contains(many, rate) {
			t.Errorf("%q is not printed of 30 signals:\n%s", rate, many)
		}
	}
	more := statisticsText(t, 60)
	for _, want := range []string{"calibration slope          +0.52 ± 3.91\n", "0.4 to 0.5  48       0.4200  0.3542\n"} {
		if !strings.Contains(more, want) {
			t.Errorf("%q is not printed of 60 signals:\n%s", want, more)
		}
	}
}
