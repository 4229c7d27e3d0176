package main

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestSlippageOfTheTimeframe checks that a file pays the slippage of its timeframe, or what is given.
func TestSlippageOfTheTimeframe(t *testing.T) {
	t.Parallel()
	for tf, want := range map[signal.Timeframe]string{signal.M1: "0.081", signal.M5: "0.031", signal.H1: "0.008",
		signal.D1: "0.008"} {
		var file strings.Builder
		file.WriteString("time,open,high,low,close\n")
		for _, b := range simulated.Walk(1, "BTC", tf, 700) {
			fmt.Fprintf(&file, "%d,%v,%v,%v,%v\n", b.OpenTime, b.Open, b.High, b.Low, b.Close)
		}
		for _, given := range []string{"", "0.25"} {
			line := "backtest --asset BTC --strategy momentum --csv -"
			if given != "" { // and the timeframe, which else is that of the file
				line, want = line+" --slippage "+given+" --timeframe "+string(tf), given
			}
			out, _, err := runCommand(t.Context(), strings.NewReader(file.String()), strings.Fields(line)...)
			if err != nil || !strings.Contains(out, "cost 10 basis points a side, slippage "+want+" R\n") ||
				!strings.Contains(out, "BTC "+string(tf)+" momentum") {
				t.Errorf("%s: %s %v, want slippage %s", line, out, err, want)
			}
		}
	}
}

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
