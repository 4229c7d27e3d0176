package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// doctorTimeout limits all checks together, including their retries.
const doctorTimeout = 60 * time.Second

func doctorCommand(s *service.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Report which configured sources answer, and how fresh they are", Args: cobra.NoArgs,
		Long: "Report which of the configured sources of prices, news and weather answer, how long\n" +
			"that takes, and the age of their newest data. The exit code is 1 if no source of prices\n" +
			"works.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTimeout)
			defer cancel()
			found, err := source.CheckHealth(ctx, c.Market.Source, service.RealSources(c.Market), time.Now)
			if err != nil {
				return err
			}
			all := append(slices.Clone(found), service.CheckWeather(ctx, c))
			if err := printHealth(cmd.OutOrStdout(), all); err != nil {
				return err
			}
			for _, f := range found[:len(found)-len(c.Market.NewsFeeds)] {
				if f.Works {
					return nil
				}
			}
			return errors.New("no configured source of prices works")
		},
	}
}

// printHealth prints the checks as a table.
func printHealth(w io.Writer, found []source.HealthCheck) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SOURCE\tWORKS\tTOOK\tAGE\tCLOCK\tNOTE")
	for _, f := range found {
		works := "no"
		if f.Works {
			works = "yes"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Source, works, rounded(f.Took, time.Millisecond),
			rounded(f.Age, time.Second), rounded(f.Skew, time.Millisecond), f.Note)
	}
	return table.Flush()
}

// rounded returns d in steps of step, or - if it is unknown.
func rounded(d, step time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(step).String()
}
