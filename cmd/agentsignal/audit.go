package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
)

// errDiffer is the error of an audit that has found differences.
var errDiffer = errors.New("signals differ from what is recomputed")

const auditHelp = `Recomputes stored signals from the bars that are stored, by the functions of live runs,
and names each member that differs.

How a signal was made: direction, levels, indicators, confidence and the figures that
follow from it, of the trading strategies that read nothing but bars, with the outcomes of
all assets that were stored at the time and the configured costs. It takes the 1,002 bars before a signal, some
more where time is compressed: of 1,500 stored ones that leaves the signals of the last
500 bars. Figures that are compared with a tolerance are also compared on average: a mean
that chance does not explain is a systematic shift.

How a signal ended, if it has prices: one that was closed by bars is closed by them
again. One that was closed by a trade must fit the bars: that of its end holds its
price, and none between its birth and its end has reached stop or target. Signals that
are open must not have ended. Expiry, result, duration, MFE and MAE must fit, too.

What was published: the confidence at the end, and those of updates that the event log
still has. Without trades they are recomputed; with trades the bars must allow them.
Live against backtest: ends are replayed over the bars, and what differs is explained (by
a trade beyond the stop, for example) or named.

The record (GET /v1/log/checkpoint): each creation and each closing that was recorded must
be stored as it was recorded, unless it is older than signals.retention or its account was
deleted. What is missing is named by its number in its account.

Not recomputed: signals of strategies that read news, weather or text. What could not be
compared is counted with the reason.

Exit codes:
  0  nothing differs
  1  something differs
  2  the audit could not run, as with a wrong command line, or recomputed fewer signals than
     --min-recomputed`

func auditCommand(s *service.Settings) *cobra.Command {
	var account, least string
	var asJSON bool
	c := &cobra.Command{
		Use: "audit", Short: "Recompute stored signals from stored bars and name those that differ", Args: cobra.NoArgs,
		Long: auditHelp,
		Example: `  agentsignal audit
  agentsignal audit --min-recomputed 50%
  agentsignal audit --account acc_01M7YQ1WTVKN9DZNWV9NV456V1 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			enough, err := parseLeast(least)
			if err != nil {
				return err
			}
			config, err := s.Load()
			if err != nil {
				return err
			}
			var report *audit.Report
			err = service.WithStore(cmd.Context(), config, func(ctx context.Context, store *persistence.Store) error {
				report, err = runAudit(ctx, store, signal.AccountID(account), &config)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				err = command.PrintJSON(cmd.OutOrStdout(), report)
			} else {
				report.Print(cmd.OutOrStdout())
			}
			switch {
			case err != nil:
				return err
			case report.Differences() > 0:
				return &command.Finding{Err: errDiffer}
			}
			return enough(report)
		},
	}
	command.Checks(c)
	c.Flags().StringVar(&account, "account", "", "only signals of this account (acc_...)")
	c.Flags().StringVar(&least, "min-recomputed", "0",
		"fail if fewer signals were recomputed: a number, or a percentage of those stored (50%)")
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return c
}

// parseLeast returns a function that fails if a report has fewer recomputed signals than text, a
// number or a percentage.
func parseLeast(text string) (func(*audit.Report) error, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil || percent && n > 100 {
		return nil, fmt.Errorf("--min-recomputed: must be a number of signals, "+
			"or a percentage from 0%% to 100%%, not %q", text)
	}
	return func(r *audit.Report) error {
		if percent && 100*r.Recomputed >= int(n)*r.Signals || !percent && r.Recomputed >= int(n) {
			return nil
		}
		return fmt.Errorf("%d of %d signals were recomputed, --min-recomputed is %s", r.Recomputed, r.Signals, text)
	}, nil
}

// runAudit audits the signals of an account, or all.
func runAudit(
	ctx context.Context, store *persistence.Store, account signal.AccountID, c *configs.Config,
) (*audit.Report, error) {
	o := audit.Options{Account: account, Kept: audit.KeptSince(store.Client.Now(), time.Duration(c.Signals.Retention))}
	if account != "" {
		if _, _, err := store.Credentials.AccountByID(ctx, account); signal.KindOf(err) == signal.KindNotFound {
			return nil, fmt.Errorf("--account: there is no account %q", account)
		} else if err != nil {
			return nil, err
		}
		o.Partitions = append(o.Partitions, store.Client.Partition(account))
	} else {
		for p := range store.Client.Partitions() {
			o.Partitions = append(o.Partitions, p)
		}
	}
	report, _, err := audit.Run(ctx, service.AuditSources(store, c.Costs), o)
	return report, err
}
