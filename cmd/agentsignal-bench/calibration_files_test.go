package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// filesOf writes files of two bars and returns their paths.
func filesOf(t *testing.T, names ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
		const bars = "time,open,high,low,close\n2026-11-02T10:00:00Z,10,11,9,10\n2026-11-02T11:00:00Z,10,11,9,10\n"
		if err := os.WriteFile(names[i], []byte(bars), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestFilesPayByTheirClass checks that a file of an unknown name pays what its class costs, or is
// refused, and that the given cost needs no class.
func TestFilesPayByTheirClass(t *testing.T) {
	t.Parallel()
	names := filesOf(t, "SPY.csv", "IBM.csv", "NZDUSD_1h.csv")
	for _, test := range []struct {
		classes []string
		cost    float64
		want    []float64 // in basis points; none: refused
	}{
		{nil, math.NaN(), nil},
		{[]string{"NZDUSD=fx"}, math.NaN(), nil},
		{[]string{"stock", "NZDUSD=forex"}, math.NaN(), nil},
		{[]string{"stock", "nzdusd=fx"}, math.NaN(), []float64{2, 2, 1}},
		{[]string{"crypto"}, math.NaN(), []float64{2, 10, 10}},
		{nil, 4, []float64{4, 4, 4}},
	} {
		f := barFiles{names: names, timeframe: "1h", risk: "medium", classes: test.classes, cost: test.cost}
		markets, err := f.read()
		var got []float64
		for _, m := range markets {
			got = append(got, math.Round(m.cost*1e8)/1e4)
		}
		if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
			t.Errorf("classes %v, cost %v: %v (%v), want %v", test.classes, test.cost, got, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), "crypto, stock, fx, metal, commodity") {
			t.Errorf("the error does not list the classes: %v", err)
		}
	}
}

// TestFlagsWithoutEffectAreRefused checks that no class or cost is ignored.
func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	csv := " --csv " + strings.Join(filesOf(t, "SPY.csv", "IBM.csv"), ",")
	for line, want := range map[string]string{
		"--class stock":       "--class: only for --csv",
		"--cost 2":            "--cost: only for --csv",
		"--timeframe 1d":      "--timeframe: only for --csv",
		"--risk low":          "--risk: only for --csv",
		"--cost 1001" + csv:   "--cost: 1001 must be 0 to 1000 basis points",
		"--cost much" + csv:   "--cost must be a number",
		"--class bonds" + csv: `--class: "bonds" must be one of crypto, stock, fx, metal, commodity`,
		csv: "IBM is not a known asset, so its costs are not known: " +
			"give --class (crypto, stock, fx, metal, commodity) or --cost",
		"--class stock,AIG=stock" + csv:  "--class AIG=stock: there is no file of AIG",
		"--class stock,SPY=fx" + csv:     "--class SPY=fx: SPY is stock; --cost sets other costs",
		"--class IBM=fx,IBM=stock" + csv: "--class IBM=fx: IBM is stock",
		"--class crypto,IBM=stock" + csv: "--class crypto: there is no file of that class",
		"--class stock,fx" + csv:         "--class: stock and fx are given: one of them needs the form NAME=CLASS",
		"--class stock --cost 2" + csv:   "--class: has no effect with --cost",
	} {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetArgs(strings.Fields("calibration " + line))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestSplitsAreRefused checks that calibration has the guard of backtests, and its flag.
func TestSplitsAreRefused(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("date,open,high,low,close,volume\n")
	price := 100.0
	for i := range 60 {
		if i == 40 {
			price /= 2
		}
		at := time.Date(2024, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		fmt.Fprintf(&text, "%s,%.2f,%.2f,%.2f,%.2f,9\n", at, price, 1.06*price, .97*price, 1.01*price)
	}
	name := filepath.Join(t.TempDir(), "SPY.csv")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := barFiles{names: []string{name}, risk: "medium", cost: math.NaN()}
	const want = "as after a split of 2:1: a split? adjust the prices, or --allow-jumps"
	if _, err := f.read(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "2024-02-10") {
		t.Errorf("%v, want %s", err, want)
	}
	f.jumps = true
	if markets, err := f.read(); err != nil || markets[0].greatest == nil || markets[0].greatest.Split != "2:1" {
		t.Errorf("%+v, %v", markets, err)
	}
}
