package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
)

// errDiffer is the error of an audit that has found differences.
var errDiffer = errors.New("signals differ from what is recomputed")

func auditCommand(s *service.Settings) *cobra.Command {
	var account string
	var asJSON bool
	c := &cobra.Command{
		Use: "audit", Short: "Recompute stored signals from stored bars and name those that differ", Args: cobra.NoArgs,
		Long: `Recomputes stored signals from the bars that are stored, by the functions of live runs,
and names each member that differs.

How a signal was made: direction, levels, indicators, confidence and the figures that
follow from it, of the trading strategies that read nothing but bars, with the outcomes of
all assets that were stored at the time and the configured costs. It takes the 1,002 bars before a signal, some
more where time is compressed: of 1,500 stored ones that leaves the signals of the last
500 bars.

How a signal ended, if it has prices: one that was closed by bars is closed by them
again. One that was closed by a trade must fit the bars: that of its end holds its
price, and none between its birth and its end has reached stop or target. Signals that
are open must not have ended. Expiry, result, duration, MFE and MAE must fit, too.

What could not be compared is counted with the reason. Exit code 1: some signals differ.`,
		Example: `  agentsignal audit
  agentsignal audit --account acc_01M7YQ1WTVKN9DZNWV9NV456V1 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := s.Load()
			if err != nil {
				return err
			}
			return s.WithStore(cmd.Context(), func(ctx context.Context, store *persistence.Store) error {
				report, err := audit(ctx, store, signal.AccountID(account), service.CostsOf(config.Costs))
				if err != nil {
					return err
				}
				if asJSON {
					err = command.PrintJSON(cmd.OutOrStdout(), report)
				} else {
					report.print(cmd.OutOrStdout())
				}
				if err == nil && len(report.Differing) > 0 {
					err = errDiffer
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&account, "account", "", "only signals of this account (acc_...)")
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}

// auditReport is the result of an audit.
type auditReport struct {
	Signals       int               `json:"signals"`
	Recomputed    int               `json:"recomputed"`
	NotRecomputed map[string]int    `json:"not_recomputed"` // by reason
	Closed        int               `json:"closed"`
	Replayed      int               `json:"ends_replayed"`
	Held          int               `json:"ends_held_against_bars"`
	NotCompared   map[string]int    `json:"ends_not_compared"` // by reason
	Differing     []differingSignal `json:"differing"`
}

// differingSignal is a signal that differs from the recomputed one.
type differingSignal struct {
	ID          signal.SignalID       `json:"signal_id"`
	Asset       string                `json:"asset"`
	Strategy    string                `json:"strategy"`
	CreatedAt   string                `json:"created_at"`
	Differences []backtest.Difference `json:"differences"`
}

func (r *auditReport) print(w io.Writer) {
	if r.Signals == 0 {
		fmt.Fprintln(w, "no signals are stored: --data-dir, or redis.url, must be that of the service")
		return
	}
	for _, d := range r.Differing {
		fmt.Fprintf(w, "%s %s %s, made %s:\n", d.ID, d.Asset, d.Strategy, d.CreatedAt)
		for _, x := range d.Differences {
			fmt.Fprintf(w, "  %s is %s, recomputed %s\n", x.Member, x.Stored, x.Now)
		}
	}
	fmt.Fprintf(w, "%d signals, %d of them recomputed, %d differ\n", r.Signals, r.Recomputed, len(r.Differing))
	printReasons(w, "not recomputed", r.NotRecomputed)
	fmt.Fprintf(w, "%d closed, %d of them closed again by bars, %d compared with the bars of their lives\n",
		r.Closed, r.Replayed, r.Held)
	printReasons(w, "ends not compared", r.NotCompared)
}

func printReasons(w io.Writer, what string, count map[string]int) {
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "  %d %s: %s\n", count[reason], what, reason)
	}
}

// Reasons why signals are not recomputed, in addition to those of package backtest.
const (
	reasonAgent  = "its agent is not trading"
	reasonAsset  = "the prices of the asset are no longer stored"
	reasonSource = "the prices of the asset come from another source now, or at another speed"
	reasonBars   = "too few bars before it are stored: a strategy looks back at 1,000"
)

// audit checks the signals of an account, or all. It holds them in memory, about a kilobyte
// each.
func audit(
	ctx context.Context, store *persistence.Store, account signal.AccountID, costs backtest.Costs,
) (*auditReport, error) {
	partitions := make([]int, 0, store.Client.Partitions())
	if account != "" {
		if _, _, err := store.Credentials.AccountByID(ctx, account); signal.KindOf(err) == signal.KindNotFound {
			return nil, fmt.Errorf("--account: there is no account %q", account)
		} else if err != nil {
			return nil, err
		}
		partitions = append(partitions, store.Client.Partition(account))
	} else {
		for p := range store.Client.Partitions() {
			partitions = append(partitions, p)
		}
	}
	report := &auditReport{
		NotRecomputed: map[string]int{},
		NotCompared:   map[string]int{},
		Differing:     []differingSignal{},
	}
	byAsset := map[string][]*signal.Signal{} // by key of the store
	for _, p := range partitions {
		err := store.Signals.EachSignal(ctx, p, func(s *signal.Signal) error {
			if account == "" || s.Account == account {
				key := assets.Key(s.Asset)
				byAsset[key] = append(byAsset[key], s)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	read := auditSources{store, marketstore.New(store.Client), costs, map[signal.Timeframe]auditPool{}}
	for key, signals := range byAsset {
		slices.SortFunc(signals, func(a, b *signal.Signal) int { return a.CreatedAt.Compare(b.CreatedAt) })
		of, err := read.asset(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read prices of %s: %w", key, err)
		}
		for _, s := range signals {
			if err := of.check(s, report); err != nil {
				return nil, fmt.Errorf("audit %s: %w", s.ID, err)
			}
		}
	}
	slices.SortFunc(report.Differing, func(a, b differingSignal) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return report, nil
}

// auditedAsset holds the stored prices of an asset.
type auditedAsset struct {
	record *marketdata.Asset // nil: no prices
	prices backtest.Prices
	audits map[signal.Timeframe]*backtest.Audit
	gaps   map[signal.Timeframe]string // reasons for missing audits
}

// auditSources is what an audit reads.
type auditSources struct {
	store  *persistence.Store
	prices *marketstore.Store
	costs  backtest.Costs
	pools  map[signal.Timeframe]auditPool
}

// auditPool has the stored outcomes of a timeframe.
type auditPool struct {
	*strategy.Pool
	whole bool // none was trimmed
}

// pool returns the stored outcomes of a timeframe, which it reads once.
func (r *auditSources) pool(ctx context.Context, tf signal.Timeframe) (auditPool, error) {
	p, ok := r.pools[tf]
	if !ok {
		var err error
		if p.Pool, p.whole, err = storedPool(ctx, r.store, tf); err != nil {
			return p, err
		}
		r.pools[tf] = p
	}
	return p, nil
}

// asset reads the stored prices of an asset.
func (r *auditSources) asset(ctx context.Context, key string) (*auditedAsset, error) {
	record, live, err := r.prices.Asset(ctx, key)
	if signal.KindOf(err) == signal.KindNotFound {
		return &auditedAsset{}, nil
	}
	if err != nil {
		return nil, err
	}
	a := &auditedAsset{
		record: &record,
		prices: backtest.Prices{
			Bars:   map[signal.Timeframe][]marketdata.Bar{},
			Speed:  max(1, record.Speed),
			Ticks:  live.Last.Time != 0,
			Sparse: market.Thinned(&record),
			Expires: func(created time.Time, d time.Duration, tf signal.Timeframe) time.Time {
				return market.ExpiryOf(&record, created, d, tf)
			},
		},
		audits: map[signal.Timeframe]*backtest.Audit{},
		gaps:   map[signal.Timeframe]string{},
	}
	for _, tf := range signal.Timeframes {
		stored, _, err := r.prices.Bars(ctx, record.Symbol, tf)
		if err != nil {
			return nil, err
		}
		bars := make([]marketdata.Bar, len(stored))
		for i := range stored {
			bars[i] = stored[i].Bar
		}
		a.prices.Bars[tf] = bars
		filled, err := market.History(stored, &record, tf)
		if err != nil {
			a.gaps[tf] = err.Error()
			continue
		}
		pool, err := r.pool(ctx, tf)
		if err != nil {
			return nil, err
		}
		origin := market.OriginOf(&record, "")
		origin.Cost = r.costs.Of(record.Class)
		a.audits[tf] = backtest.NewAudit(origin, tf, filled).InPool(pool.Pool, outcomeKeyOf(&record), pool.whole)
	}
	return a, nil
}

// check compares a signal with the prices of its asset. It must be called in the order of
// the signals' creation.
func (a *auditedAsset) check(s *signal.Signal, report *auditReport) error {
	var made backtest.Verdict
	found := backtest.CheckClosing(s)
	how, reason := backtest.NotCompared, ""
	switch {
	case s.Levels == nil:
		made.Reason, reason = reasonAgent, backtest.EndsContent
	case a.record == nil:
		made.Reason, reason = reasonAsset, reasonAsset
	case !madeBy(s, a.record):
		made.Reason, reason = reasonSource, reasonSource
	default:
		var ended []backtest.Difference
		ended, how, reason = a.prices.CheckEnd(s)
		found = append(found, ended...)
		switch check := a.audits[s.Timeframe]; {
		case s.Agent != "trading":
			made.Reason = reasonAgent
		case check == nil:
			made.Reason = a.gaps[s.Timeframe]
		default:
			var err error
			if made, err = check.Check(s); err != nil {
				return err
			}
			found = append(found, made.Differences...)
		}
	}
	report.add(s, made, how, reason, found)
	return nil
}

// add adds the result for a signal. reason is why its end was not compared.
func (r *auditReport) add(
	s *signal.Signal, made backtest.Verdict, how backtest.Compared, reason string, found []backtest.Difference,
) {
	r.Signals++
	switch {
	case made.Reason == "":
		r.Recomputed++
	case made.FewBars:
		r.NotRecomputed[reasonBars]++
	default:
		r.NotRecomputed[made.Reason]++
	}
	if s.Closing != nil {
		r.Closed++
		switch how {
		case backtest.Replayed:
			r.Replayed++
		case backtest.Within:
			r.Held++
		default:
			r.NotCompared[reason]++
		}
	}
	if len(found) > 0 {
		r.Differing = append(r.Differing, differingSignal{s.ID, s.Asset, s.Strategy,
			s.CreatedAt.UTC().Format(time.RFC3339Nano), found})
	}
}

// madeBy reports whether the prices of a signal are of the present source of its asset.
func madeBy(s *signal.Signal, record *marketdata.Asset) bool {
	var m struct {
		Source      string  `json:"source"`
		Compression float64 `json:"time_compression"`
	}
	return json.Unmarshal(s.Metadata, &m) == nil && m.Source == record.Source &&
		max(1, m.Compression) == float64(max(1, record.Speed))
}
