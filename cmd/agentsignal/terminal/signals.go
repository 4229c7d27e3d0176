package terminal

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// filterFlags are the filters of lists of signals.
type filterFlags struct {
	q     client.SignalQuery
	since string
}

func (f *filterFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.q.Asset, "asset", "", "only of this asset, by any of its names")
	c.Flags().StringVar(&f.q.Agent, "agent", "", "only of this agent, such as trading")
	c.Flags().StringVar(&f.q.Strategy, "strategy", "", "only of this strategy")
	c.Flags().StringVar(&f.q.Direction, "direction", "", "only long, or only short")
	c.Flags().StringVar(&f.q.Status, "status", "", "only open, or only closed")
	c.Flags().Float64Var(&f.q.MinConfidence, "min-confidence", 0, "only with this confidence or more, 0 to 1")
	c.Flags().StringVar(&f.since, "since", "", sinceUsage)
}

// sinceUsage explains a flag that parseSince reads.
const sinceUsage = "only created after this time: 2026-11-21, 2026-11-21T09:30:00Z, or 90m or 3d ago"

// query returns the filters.
func (f *filterFlags) query() (client.SignalQuery, error) {
	q := f.q
	if f.since == "" {
		return q, nil
	}
	var err error
	if q.Since, err = parseSince(f.since, time.Now(), time.Local); err != nil {
		return q, fmt.Errorf("--since: %w", err)
	}
	return q, nil
}

// signalColumns are the columns of lists of signals.
var signalColumns = []column[client.Signal]{
	{"created_at", func(s *client.Signal) any { return s.CreatedAt }},
	{"signal_id", func(s *client.Signal) any { return s.ID }},
	{"asset", func(s *client.Signal) any { return s.Asset }},
	{"strategy", func(s *client.Signal) any { return s.Strategy }},
	{"direction", func(s *client.Signal) any { return direction(s.Direction) }},
	{"confidence", func(s *client.Signal) any { return share{&s.Confidence} }},
	{"break_even_net", func(s *client.Signal) any { return share{s.Metadata.BreakEvenNet} }},
	{"entry_price", func(s *client.Signal) any { return levelOf(s, s.Entry) }},
	{"stop_loss", func(s *client.Signal) any { return levelOf(s, s.Stop) }},
	{"take_profit", func(s *client.Signal) any { return levelOf(s, s.Target) }},
	{"status", func(s *client.Signal) any { return s.Status }},
	{"close_reason", func(s *client.Signal) any { return reason(s.CloseReason) }},
	{"r", func(s *client.Signal) any { return multiple{s.R} }},
	{"pnl_percent", func(s *client.Signal) any { return percent{s.PnLPercent} }},
}

// levelOf returns a price of a signal.
func levelOf(s *client.Signal, x *float64) price {
	return price{x, s.Asset, []*float64{s.Entry, s.Stop, s.Target}}
}

func signalsCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var f filterFlags
	var limit int
	c := &cobra.Command{
		Use: "signals", Short: "List signals, the newest first", Args: cobra.NoArgs,
		Long: "List signals, the newest first. The confidence of a closed signal is the one at its creation. Compare it\n" +
			"with break even net, the hit rate at which such signals gain nothing after costs. R is the result\n" +
			"before costs in multiples of the distance from entry to stop.",
		Example: "  agentsignal signals --asset BTC --status closed --since 3d\n" +
			"  agentsignal signals --limit 0 --jq 'map(.r // 0) | add'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query()
			if err != nil {
				return err
			}
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := client.Collect(c.Signals(cmd.Context(), q, limit))
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "such signals", signalColumns, all)
		},
	}
	f.add(c)
	limitFlag(c, &limit)
	s.add(c, dataDir)
	return c
}

// limitFlag adds the number of items of a list.
func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVarP(limit, "limit", "n", 25, "at most so many; 0 for all")
}
