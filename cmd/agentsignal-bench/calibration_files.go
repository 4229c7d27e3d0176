package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/backtest/barfile"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// barFiles are the flags that replace the markets of calibration by files.
type barFiles struct {
	names           []string
	timeframe, risk string // an empty timeframe is that of the files
	dates, decimal  string
	skipBad, jumps  bool
	classes         []string // of assets whose names are not known: a class, or NAME=CLASS
	cost            float64  // in basis points; NaN: that of the class
}

// define adds the flags to c, which refuses the others without --csv.
func (f *barFiles) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&f.names, "csv", nil, "files of bars to measure on, one for each asset")
	flags.StringSliceVar(&f.classes, "class", nil, "the class of assets whose names are not known, or of one: "+
		"stock or NZDUSD=fx; classes are "+strings.Join(assets.Classes, ", "))
	flags.Float64Var(&f.cost, "cost", math.NaN(),
		"cost of entry and of exit each, in basis points; that of the asset's class if not given")
	flags.Lookup("cost").DefValue = "0" // hides the default, which stands for the cost of the class
	flags.StringVar(&f.timeframe, "timeframe", "", "that of the files: 1m, 5m, 15m, 1h, 4h or 1d; as they show if not given")
	flags.StringVar(&f.dates, "dates", "", "day-first or month-first, if dates of the files have both readings")
	flags.StringVar(&f.decimal, "decimal", "", "point or comma, if numbers of the files have both readings")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "skip bad rows, up to 1 % of a file, and list them")
	flags.StringVar(&f.risk, "risk", "medium", "that of the signals on files: low, medium or high")
	flags.BoolVar(&f.jumps, "allow-jumps", false,
		"accept bars that open as after a split, or more than 20 mean ranges from the close before them")
	c.PreRunE = func(*cobra.Command, []string) error {
		for _, name := range []string{"class", "cost", "timeframe", "risk", "dates", "decimal", "skip-bad", "allow-jumps"} {
			if flags.Changed(name) && len(f.names) == 0 {
				return fmt.Errorf("--%s: only for --csv", name)
			}
		}
		return nil
	}
}

// check checks the flags that need no file.
func (f *barFiles) check() error {
	if f.timeframe != "" && strategy.Horizon(signal.Timeframe(f.timeframe), signal.MediumRisk) == 0 {
		return fmt.Errorf("--timeframe: %q must be 1m, 5m, 15m, 1h, 4h or 1d", f.timeframe)
	}
	if strategy.StopMultiple(signal.RiskLevel(f.risk)) == 0 {
		return fmt.Errorf("--risk: %q must be low, medium or high", f.risk)
	}
	if !slices.Contains([]string{"", string(barfile.DayFirst), string(barfile.MonthFirst)}, f.dates) {
		return fmt.Errorf("--dates: %q must be day-first or month-first", f.dates)
	}
	if !slices.Contains([]string{"", string(barfile.Point), string(barfile.Comma)}, f.decimal) {
		return fmt.Errorf("--decimal: %q must be point or comma", f.decimal)
	}
	if f.cost < 0 || f.cost > 1000 {
		return fmt.Errorf("--cost: %g must be 0 to 1000 basis points", f.cost)
	}
	if !math.IsNaN(f.cost) && len(f.classes) > 0 {
		return fmt.Errorf("--class: has no effect with --cost, which is that of all files")
	}
	return nil
}

// read reads the files. An asset has the name of its file without extension, up to the first underscore.
func (f *barFiles) read() ([]assetBars, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var markets []assetBars
	for _, name := range f.names {
		m, err := f.readFile(name)
		if err != nil {
			return nil, fmt.Errorf("--csv: %w", err)
		}
		if slices.ContainsFunc(markets, func(o assetBars) bool { return o.asset == m.asset }) {
			return nil, fmt.Errorf("--csv: %s: there is another file of %s", name, m.asset)
		}
		markets = append(markets, m)
	}
	return markets, f.checkClasses(markets)
}

// readFile reads a file. All files must have the timeframe of the first one.
func (f *barFiles) readFile(name string) (m assetBars, err error) {
	base := filepath.Base(name)
	asset, _, _ := strings.Cut(strings.ToUpper(strings.TrimSuffix(base, filepath.Ext(base))), "_")
	read, err := barfile.ReadFile(name, nil, barfile.Options{Timeframe: signal.Timeframe(f.timeframe), Asset: asset,
		SkipBad: f.skipBad, Dates: barfile.DateOrder(f.dates), Decimal: barfile.DecimalSign(f.decimal)})
	if e, ok := errors.AsType[*barfile.FileError](err); ok {
		return m, fmt.Errorf("%s:\n%w", name, e)
	}
	if err != nil {
		return m, err
	}
	f.timeframe = string(read.Timeframe)
	m = assetBars{asset: asset, class: assets.ClassOf(asset), cost: f.cost / 1e4,
		bars: read.Bars, cuts: read.Cuts, file: &read.Report}
	var jumps []backtest.Jump
	if m.greatest, jumps = backtest.FindJumps(m.bars, read.Timeframe, m.cuts); len(jumps) > 0 && !f.jumps {
		return m, fmt.Errorf("%s: %s: a split? adjust the prices, or --allow-jumps", name, jumps[0])
	}
	if math.IsNaN(f.cost) {
		if m.class, err = f.classOf(asset); err != nil {
			return m, fmt.Errorf("%s: %w", name, err)
		}
		m.cost = backtest.DefaultCosts.Of(m.class)
	}
	return m, nil
}

// classOf returns the class of an asset: that of a known one, else that of --class.
func (f *barFiles) classOf(asset string) (string, error) {
	given := ""
	for _, c := range f.classes {
		switch name, class, named := strings.Cut(c, "="); {
		case !named && given == "":
			given = c
		case named && strings.EqualFold(name, asset):
			given = class
		}
	}
	return assets.ClassOr(asset, given)
}

// checkClasses checks that each --class is that of a file.
func (f *barFiles) checkClasses(markets []assetBars) error {
	general := ""
	for _, c := range f.classes {
		name, class, named := strings.Cut(c, "=")
		if !named {
			if general != "" {
				return fmt.Errorf("--class: %s and %s are given: one of them needs the form NAME=CLASS", general, c)
			}
			general, class = c, c
		}
		i := slices.IndexFunc(markets, func(m assetBars) bool {
			return named && strings.EqualFold(m.asset, name) || !named && m.class == class
		})
		switch {
		case i < 0 && named:
			return fmt.Errorf("--class %s: there is no file of %s", c, name)
		case i < 0:
			return fmt.Errorf("--class %s: there is no file of that class, and known assets have their own; "+
				"--cost sets other costs", c)
		case markets[i].class != class:
			return fmt.Errorf("--class %s: %s is %s; --cost sets other costs", c, markets[i].asset, markets[i].class)
		}
	}
	return nil
}
