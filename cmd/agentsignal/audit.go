package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
)

// errDiffer ends an audit that has found something.
var errDiffer = errors.New("signals differ from what is recomputed")

func auditCommand(s *settings) *cobra.Command {
	var account string
	var asJSON bool
	c := &cobra.Command{
		Use: "audit", Short: "Recompute stored signals from stored bars and name those that differ", Args: cobra.NoArgs,
		Long: `Recomputes the signals of the trading agent from the bars that are stored: direction,
levels, indicators and confidence, by the functions of live runs; and checks of all
closed signals that price, reason and result fit together. Of the newest 1,500 bars a
strategy looks back at 1,000: older signals, and those that read more than bars, are
counted as not recomputed. Exit code 1: some differ.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.withStore(cmd.Context(), func(ctx context.Context, store *persistence.Store) error {
				report, err := audit(ctx, store, signal.AccountID(account))
				if err != nil {
					return err
				}
				if asJSON {
					err = printJSON(cmd.OutOrStdout(), report)
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

// auditReport is what an audit has found.
type auditReport struct {
	Signals    int               `json:"signals"`
	Recomputed int               `json:"recomputed"`
	Skipped    map[string]int    `json:"not_recomputed"` // by reason
	Differing  []differingSignal `json:"differing"`
}

// differingSignal is a signal that is not as it is recomputed.
type differingSignal struct {
	ID          signal.SignalID       `json:"signal_id"`
	Asset       string                `json:"asset"`
	Strategy    string                `json:"strategy"`
	CreatedAt   string                `json:"created_at"`
	Differences []backtest.Difference `json:"differences"`
}

func (r *auditReport) print(w io.Writer) {
	for _, d := range r.Differing {
		fmt.Fprintf(w, "%s %s %s, made %s:\n", d.ID, d.Asset, d.Strategy, d.CreatedAt)
		for _, x := range d.Differences {
			fmt.Fprintf(w, "  %s is %s, recomputed %s\n", x.Member, x.Stored, x.Now)
		}
	}
	fmt.Fprintf(w, "%d signals, %d of them recomputed, %d differ\n", r.Signals, r.Recomputed, len(r.Differing))
	reasons := make([]string, 0, len(r.Skipped))
	for reason := range r.Skipped {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		fmt.Fprintf(w, "  %d not recomputed: %s\n", r.Skipped[reason], reason)
	}
}

// Reasons why signals are not recomputed beside those of package backtest.
const (
	reasonAgent  = "it is of another agent than trading"
	reasonAsset  = "the prices of the asset are stored no more"
	reasonSource = "the prices of the asset come from another source now"
	reasonBars   = "too few bars before it are stored"
)

// auditKey names bars.
type auditKey struct {
	asset     string // key of the store
	timeframe signal.Timeframe
}

// audit checks the signals of an account, or of all. Signals are held in memory: about
// a kilobyte each.
func audit(ctx context.Context, store *persistence.Store, account signal.AccountID) (*auditReport, error) {
	report := &auditReport{Skipped: map[string]int{}, Differing: []differingSignal{}}
	groups := map[auditKey][]*signal.Signal{}
	for p := range store.Partitions() {
		err := store.EachSignal(ctx, p, func(s *signal.Signal) error {
			if account != "" && s.Account != account {
				return nil
			}
			report.Signals++
			if s.Agent != "trading" {
				report.add(s, backtest.Verdict{Differences: backtest.CheckClosing(s), Reason: reasonAgent})
				return nil
			}
			key := auditKey{market.Key(s.Asset), s.Timeframe}
			groups[key] = append(groups[key], s)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	prices := persistence.NewMarket(store)
	for key, signals := range groups {
		slices.SortFunc(signals, func(a, b *signal.Signal) int { return a.CreatedAt.Compare(b.CreatedAt) })
		if err := auditSeries(ctx, prices, key, signals, report); err != nil {
			return nil, fmt.Errorf("audit %s %s: %w", key.asset, key.timeframe, err)
		}
	}
	slices.SortFunc(report.Differing, func(a, b differingSignal) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return report, nil
}

// auditSeries checks the signals on one asset and timeframe, by their creation.
func auditSeries(ctx context.Context, prices *persistence.Market, key auditKey, signals []*signal.Signal, report *auditReport) error {
	record, _, err := prices.Asset(ctx, key.asset)
	if err != nil && signal.KindOf(err) != signal.KindNotFound {
		return err
	}
	reason := ""
	var check *backtest.Audit
	switch {
	case err != nil:
		reason = reasonAsset
	default:
		stored, _, err := prices.Bars(ctx, record.Symbol, key.timeframe)
		if err != nil {
			return err
		}
		bars, err := market.History(stored, record.AlwaysOpen)
		if err != nil {
			reason = err.Error()
			break
		}
		check = backtest.NewAudit(market.OriginOf(&record, ""), key.timeframe, bars)
	}
	for _, s := range signals {
		v := backtest.Verdict{Differences: backtest.CheckClosing(s), Reason: reason}
		switch {
		case check == nil:
		case sourceOf(s) != record.Source:
			v.Reason = reasonSource
		default:
			if v, err = check.Check(s); err != nil {
				return err
			}
		}
		report.add(s, v)
	}
	return nil
}

// add counts the verdict on a signal.
func (r *auditReport) add(s *signal.Signal, v backtest.Verdict) {
	switch {
	case v.Reason == "":
		r.Recomputed++
	case v.FewBars:
		r.Skipped[reasonBars]++
	default:
		r.Skipped[v.Reason]++
	}
	if len(v.Differences) > 0 {
		r.Differing = append(r.Differing, differingSignal{s.ID, s.Asset, s.Strategy, s.CreatedAt.UTC().Format(time.RFC3339Nano), v.Differences})
	}
}

// sourceOf returns who gave the prices of a signal.
func sourceOf(s *signal.Signal) string {
	var m struct {
		Source string `json:"source"`
	}
	if json.Unmarshal(s.Metadata, &m) != nil {
		return ""
	}
	return m.Source
}
