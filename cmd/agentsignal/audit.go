package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/outcomes"
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
				report, err := runAudit(ctx, store, signal.AccountID(account), service.CostsOf(config.Costs))
				if err != nil {
					return err
				}
				if asJSON {
					err = command.PrintJSON(cmd.OutOrStdout(), report)
				} else {
					report.Print(cmd.OutOrStdout())
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

// runAudit audits the signals of an account, or all.
func runAudit(
	ctx context.Context, store *persistence.Store, account signal.AccountID, costs backtest.Costs,
) (*audit.Report, error) {
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
	return audit.Run(ctx, audit.Sources{
		Signals:  store.Signals,
		Prices:   market.New(store.Client),
		Outcomes: outcomes.New(store.Client),
		Costs:    costs,
	}, partitions, account)
}
