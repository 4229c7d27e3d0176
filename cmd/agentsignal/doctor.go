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

// doctorTimeout bounds all questions together: each has tries of its own.
const doctorTimeout = 60 * time.Second

func doctorCommand(s *service.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say which of the configured sources answer, and how fresh they are", Args: cobra.NoArgs,
		Long: "Say which of the configured sources of prices, news and weather answer, " +
			"how long that takes and how old the newest thing is\n" +
			"that they have. The exit code is 1 if no source of prices works.",
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
			if err := printCheckups(cmd.OutOrStdout(), append(slices.Clone(found), service.ExamineWeather(ctx, c))); err != nil {
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

// printCheckups writes a table.
func printCheckups(w io.Writer, found []source.HealthCheck) error {
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

// rounded returns a duration in steps of step, and - for what is not known.
func rounded(d, step time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(step).String()
}
