package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/backtest/barfile"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/outcomes"
)

// barStrategies are the strategies that read only bars.
var barStrategies = []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout}

// csvSource is the source of signals from a file.
const csvSource = "csv"

// backtestFlags are the flags of agentsignal backtest.
type backtestFlags struct {
	asset, strategy, timeframe, risk string
	from, to                         string
	file, class                      string
	cost, slippage, tick             float64
	dates, decimal                   string
	overlap, json, trades            bool
	jumps, skipBad                   bool
}

func backtestCommand(s *service.Settings) *cobra.Command {
	var f backtestFlags
	c := &cobra.Command{
		Use: "backtest", Short: "Replay a strategy over stored bars or a file of prices", Args: cobra.NoArgs,
		Long: `Replays a strategy by the functions of live runs: signal at the close of a bar, exits
from the next bar on, one signal open at a time, costs for entry and exit. A stop that
lies inside a bar is paid with --slippage, since live signals close at the trade that
passes it.

Without --csv it reads the bars that the service has stored, and confidence rests on the
stored outcomes of all assets, as far as they were known at each bar; with --csv on those
of the file alone. A file is read as exchanges, brokers, chart programs and libraries
write it, also packed by zip or gzip: delimiter, columns, order of rows and form of times
are recognized, and the first lines of the output say as what. What has two readings is
refused with the flag that decides. An asset whose name is not known needs --class or
--cost. Results over the files of today's companies are too good, because those that
failed are missing (survivorship bias).`,
		Example: `  agentsignal backtest --asset BTC --strategy momentum
  agentsignal backtest --asset SPY --strategy breakout --csv spy.csv --trades`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBacktest(cmd, s, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.asset, "asset", "", "the asset")
	flags.StringVar(&f.strategy, "strategy", "", "momentum, mean_reversion or breakout")
	flags.StringVar(&f.timeframe, "timeframe", "", "1m, 5m, 1h or 1d, of a file also 15m or 4h; that of the file, or 1h, if not given")
	flags.StringVar(&f.risk, "risk", "medium", "low, medium or high")
	flags.StringVar(&f.from, "from", "", "the earliest time of a signal, such as 2026-11-01 or 2026-11-01T09:30:00Z")
	flags.StringVar(&f.to, "to", "", "the latest time of a signal")
	flags.StringVar(&f.file, "csv", "", "a file with bars; - is standard input")
	flags.StringVar(&f.dates, "dates", "", "day-first or month-first, if dates of the file have both readings")
	flags.StringVar(&f.decimal, "decimal", "", "point or comma, if numbers of the file have both readings")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "skip bad rows of a file, up to 1 % of all, and list them")
	flags.StringVar(&f.class, "class", "",
		"the class of a file's asset, if its name is not known: "+strings.Join(assets.Classes, ", "))
	flags.Float64Var(&f.cost, "cost", math.NaN(),
		"cost of entry and of exit each, in basis points; as configured for the asset's class if not given")
	flags.Lookup("cost").DefValue = "0" // hides the default, which stands for the configured cost
	flags.Float64Var(&f.slippage, "slippage", math.NaN(),
		"how far beyond the stop a signal closes, in R; by costs.slippage and the timeframe if not given")
	flags.Lookup("slippage").DefValue = "0"
	flags.Float64Var(&f.tick, "tick", 0, "tick size of the prices of a file; 0: by their digits")
	flags.BoolVar(&f.overlap, "overlap", false, "make signals even while one is open")
	flags.BoolVar(&f.jumps, "allow-jumps", false,
		"accept bars that open as after a split, or more than 20 mean ranges from the close before them")
	flags.BoolVar(&f.json, "json", false, "print statistics and equity as JSON")
	flags.BoolVar(&f.trades, "trades", false, "also print each signal")
	c.MarkFlagRequired("asset")
	c.MarkFlagRequired("strategy")
	return c
}

func runBacktest(cmd *cobra.Command, s *service.Settings, f *backtestFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	c, err := s.Load()
	if err != nil {
		return err
	}
	var class string
	var bars []marketdata.Bar
	var file *barfile.Report
	if f.file != "" {
		bars, class, file, err = f.readFile(cmd.InOrStdin(), &o)
	} else {
		err = service.WithStore(cmd.Context(), c, func(ctx context.Context, store *persistence.Store) error {
			var err error
			bars, class, err = storedBars(ctx, store, &o)
			return err
		})
	}
	if err != nil {
		return err
	}
	if o.Cost = service.CostsOf(c.Costs).Of(class); !math.IsNaN(f.cost) {
		o.Cost = f.cost / 1e4
	}
	if o.Slippage = backtest.SlippageOn(o.Timeframe, c.Costs.Slippage); !math.IsNaN(f.slippage) {
		o.Slippage = f.slippage
	}
	result, err := backtest.Run(cmd.Context(), bars, o)
	if err != nil {
		if jump, ok := errors.AsType[*backtest.JumpError](err); ok {
			return fmt.Errorf("replay %s: %w: a split? adjust the prices, or --allow-jumps", f.asset, jump)
		}
		if e, ok := errors.AsType[*signal.RunError](err); ok {
			return fmt.Errorf("replay %s: %w", f.asset, errors.Join(errors.New(e.Message), e.Cause))
		}
		return err
	}
	if f.json {
		return command.PrintJSON(cmd.OutOrStdout(), struct {
			backtest.Result
			File *barfile.Report `json:"file,omitempty"`
		}{result, file})
	}
	if file != nil {
		if err := file.Print(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	return printBacktest(cmd.OutOrStdout(), &o, bars, &result, f.trades)
}

// options checks the flags. The error lists all faults.
func (f *backtestFlags) options() (backtest.Options, error) {
	o := backtest.Options{
		Origin: strategy.Origin{
			Asset:       strings.TrimSpace(f.asset),
			Tick:        f.tick,
			Source:      csvSource,
			Compression: 1,
		},
		Strategy:  f.strategy,
		Timeframe: signal.Timeframe(f.timeframe),
		Risk:      signal.RiskLevel(f.risk),
		Overlap:   f.overlap,
		Jumps:     f.jumps,
	}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.Asset != "", "--asset: must not be empty")
	check(slices.Contains(barStrategies, f.strategy),
		"--strategy: must be one of %s; for sentiment, which needs news, ask POST /v1/backtests of a service",
		strings.Join(barStrategies, ", "))
	if o.Timeframe == "" && f.file == "" {
		o.Timeframe = signal.H1
	}
	if f.file == "" {
		check(o.Timeframe == "" || slices.Contains(signal.Timeframes, o.Timeframe), "--timeframe: must be 1m, 5m, 1h or 1d")
	} else {
		check(o.Timeframe == "" || slices.Contains(signal.FileTimeframes, o.Timeframe),
			"--timeframe: of a file it must be 1m, 5m, 15m, 1h, 4h or 1d")
	}
	check(strategy.StopMultiple(o.Risk) > 0, "--risk: must be low, medium or high")
	known := assets.ClassOf(o.Asset)
	check(f.class == "" || slices.Contains(assets.Classes, f.class), "--class: must be one of %s",
		strings.Join(assets.Classes, ", "))
	check(f.class == "" || f.file != "", "--class: only for --csv; stored assets have a class")
	check(f.class == "" || math.IsNaN(f.cost), "--class: has no effect with --cost")
	check(f.tick == 0 || f.file != "", "--tick: only for --csv; stored assets have a tick size")
	check(f.file != "" || f.dates == "" && f.decimal == "" && !f.skipBad, "--dates, --decimal, --skip-bad: only for --csv")
	check(slices.Contains([]string{"", string(barfile.DayFirst), string(barfile.MonthFirst)}, f.dates),
		"--dates: must be day-first or month-first")
	check(slices.Contains([]string{"", string(barfile.Point), string(barfile.Comma)}, f.decimal), "--decimal: must be point or comma")
	check(f.class == "" || known == "" || known == f.class, "--class: %s is %s; --cost sets other costs", o.Asset, known)
	check(math.IsNaN(f.cost) || f.cost >= 0 && f.cost <= 1000, "--cost: must be 0 to 1000 basis points")
	check(math.IsNaN(f.slippage) || f.slippage >= 0 && f.slippage <= 1, "--slippage: must be 0 to 1 R")
	check(f.tick >= 0 && f.tick < 1e9, "--tick: must be 0 or more")
	for _, bound := range []struct {
		flag, text string
		ms         *int64
	}{{"--from", f.from, &o.From}, {"--to", f.to, &o.To}} {
		if bound.text == "" {
			continue
		}
		at, err := parseMoment(bound.text)
		check(err == nil, "%s: %q is not a time: write 2026-11-01 or 2026-11-01T09:30:00Z", bound.flag, bound.text)
		*bound.ms = at.UnixMilli()
	}
	check(o.From == 0 || o.To == 0 || o.From <= o.To, "--to: must not be before --from")
	return o, errors.Join(faults...)
}

// parseMoment reads a time or a date in UTC.
func parseMoment(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// readFile reads bars from a file and returns the class of its asset, which is empty if the cost is given.
func (f *backtestFlags) readFile(stdin io.Reader, o *backtest.Options) ([]marketdata.Bar, string, *barfile.Report, error) {
	var class string
	if math.IsNaN(f.cost) {
		var err error
		if class, err = assets.ClassOr(o.Asset, f.class); err != nil {
			return nil, "", nil, err
		}
	}
	read, err := barfile.ReadFile(f.file, stdin, barfile.Options{Timeframe: o.Timeframe, Asset: o.Asset, From: o.From, To: o.To,
		Tick: f.tick, SkipBad: f.skipBad, Dates: barfile.DateOrder(f.dates), Decimal: barfile.DecimalSign(f.decimal)})
	if e, ok := errors.AsType[*barfile.FileError](err); ok {
		return nil, "", nil, fmt.Errorf("%s:\n%w", f.file, e)
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("--csv: %w", err)
	}
	o.Timeframe, o.Cuts = read.Timeframe, read.Cuts
	return read.Bars, class, &read.Report, nil
}

// storedBars reads the bars of an asset that the service has stored, and sets the origin and
// the pool to those of a live run.
func storedBars(ctx context.Context, store *persistence.Store, o *backtest.Options) (
	[]marketdata.Bar, string, error,
) {
	prices := marketstore.New(store.Client)
	record, _, err := prices.Asset(ctx, assets.Key(o.Asset))
	if signal.KindOf(err) == signal.KindNotFound {
		return nil, "", notStored(ctx, prices, o.Asset)
	}
	if err != nil {
		return nil, "", err
	}
	stored, _, err := prices.Bars(ctx, record.Symbol, o.Timeframe)
	if err != nil {
		return nil, "", err
	}
	if len(stored) == 0 {
		return nil, "", fmt.Errorf("no bars of %s are stored for %s", o.Timeframe, record.Symbol)
	}
	o.Origin = market.OriginOf(&record, o.Asset)
	bars, err := market.History(stored, &record, o.Timeframe)
	if err != nil {
		return nil, "", err
	}
	pool, _, err := audit.StoredPool(ctx, outcomes.New(store.Client), o.Timeframe)
	if err != nil {
		return nil, "", err
	}
	o.PoolKey = audit.OutcomeKey(&record)
	o.Pool = pool.Replayed(o.PoolKey, bars)
	return bars, record.Class, nil
}

// maxNamed limits the assets in the error of an unknown one.
const maxNamed = 12

// notStored returns the error of an asset without stored prices. It names assets with prices.
func notStored(ctx context.Context, prices *marketstore.Store, asset string) error {
	state, err := prices.State(ctx)
	if err != nil {
		return err
	}
	var known []string
	for _, a := range state.Assets {
		known = append(known, a.Symbol)
	}
	slices.Sort(known)
	advice := ": give bars by --csv, or another data directory by --data-dir"
	if near := command.OrNearest(asset, known); near != "" {
		advice = near
	} else if len(known) > maxNamed {
		advice = fmt.Sprintf(", but of %d others, such as %s", len(known), strings.Join(known[:maxNamed], ", "))
	} else if len(known) > 0 {
		advice = "; there are those of " + strings.Join(known, ", ")
	}
	return fmt.Errorf("--asset: no prices of %s are stored%s", asset, advice)
}

// printBacktest prints the result.
func printBacktest(w io.Writer, o *backtest.Options, bars []marketdata.Bar, r *backtest.Result, trades bool) error {
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05") }
	from, to := at(bars[0].OpenTime), at(bars[len(bars)-1].CloseTime)
	fmt.Fprintf(w, "%s %s %s, risk %s: %d bars from %s to %s, cost %g basis points a side, slippage %g R\n\n",
		o.Asset, o.Timeframe, o.Strategy, o.Risk, len(bars), from, to, math.Round(o.Cost*1e8)/1e4, o.Slippage)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if trades {
		fmt.Fprintln(t, "made\tdirection\tconfidence\tentry\tstop\ttarget\tclosed\treason\texit\tR\tR after costs")
		for i := range r.Trades {
			x := &r.Trades[i]
			fmt.Fprintf(t, "%s\t%s\t%.4f\t%v\t%v\t%v\t",
				at(x.CreatedAt), x.Direction, x.Confidence, x.Levels.Entry, x.Levels.Stop, x.Levels.Target)
			if x.Open() {
				fmt.Fprintln(t, "open\t\t\t\t")
				continue
			}
			out := x.Outcome(o.Cost)
			fmt.Fprintf(t, "%s\t%s\t%v\t%+.3f\t%+.3f\n",
				at(x.ClosedAt), x.Exit.Reason, x.Exit.Price, out.R, out.R-out.Cost)
		}
		fmt.Fprintln(t)
	}
	if j := r.Greatest; j != nil {
		fmt.Fprintf(t, "greatest jump\t%+.2f %%, %.1f mean ranges, at %s\n", j.Percent, j.Ranges, at(j.At))
	}
	printStatistics(t, &r.Statistics)
	return t.Flush()
}

// printStatistics prints statistics as a table.
func printStatistics(w io.Writer, s *backtest.Statistics) {
	row := func(name, format string, figures ...backtest.Figure) {
		values := make([]any, len(figures))
		for i, f := range figures {
			if math.IsNaN(float64(f)) {
				fmt.Fprintf(w, "%s\t-\n", name)
				return
			}
			values[i] = float64(f)
		}
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, values...))
	}
	fmt.Fprintf(w, "closed signals\t%d (%d take_profit, %d stop_loss, %d expired)\n",
		s.Count, s.Reasons.TakeProfit, s.Reasons.StopLoss, s.Reasons.Expired)
	few := s.Count < backtest.MinForRates
	if few {
		fmt.Fprintf(w, "closed in profit\t%d (no rates of fewer than %d signals)\n", s.Wins, backtest.MinForRates)
	} else {
		row("hit rate", "%.4f (95 %%: %.4f to %.4f)", s.HitRate, s.HitRateInterval.Low, s.HitRateInterval.High)
		row("break-even, after costs", "%.4f, %.4f", s.BreakEven, s.BreakEvenNet)
	}
	row("mean confidence", "%.4f", s.MeanConfidence)
	row("mean R, median R", "%+.4f, %+.4f", s.MeanR, s.MedianR)
	row("expectancy after costs", "%+.4f R", s.ExpectancyR)
	row("profit factor after costs", "%.4f", s.ProfitFactor)
	row("total after costs", "%+.4f R", s.TotalR)
	row("greatest drawdown", "%.4f R", s.MaxDrawdownR)
	row("mean duration", "%.1f minutes", s.MeanMinutes)
	row("mean MFE, MAE", "%+.4f, %+.4f R", s.MeanMFE, s.MeanMAE)
	if few {
		return
	}
	row("Brier score", "%.6f", s.Brier)
	row("Brier skill", "%+.6f", s.BrierSkill)
	row("calibration slope", "%+.2f ± %.2f", s.Slope, s.SlopeError)
	fmt.Fprintln(w, "\nconfidence\tsignals\tmean\thit rate")
	for _, b := range s.Reliability {
		if b.Count == 0 {
			continue
		}
		hits := fmt.Sprintf("%.4f", b.HitRate)
		if b.Count < backtest.MinForRates {
			hits = fmt.Sprintf("%.0f of %d", float64(b.HitRate)*float64(b.Count), b.Count)
		}
		fmt.Fprintf(w, "%.1f to %.1f\t%d\t%.4f\t%s\n", b.From, b.To, b.Count, b.MeanConfidence, hits)
	}
}
