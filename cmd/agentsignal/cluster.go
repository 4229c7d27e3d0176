package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

func clusterCommand(s *service.Settings) *cobra.Command {
	c := &cobra.Command{Use: "cluster", Short: "Show the nodes that share a Redis"}
	c.AddCommand(clusterStatus(s))
	return c
}

// The values of --output.
const (
	outputTable = "table"
	outputText  = "text"
	outputJSON  = "json"
)

func clusterStatus(s *service.Settings) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "status", Short: "Print the live nodes and who owns each partition", Args: cobra.NoArgs,
		Long: "Print the live nodes, the partitions whose events each reads and why, the owner of each partition\n" +
			"and how far its effects are behind the events, who feeds the market, and settings in which nodes\n" +
			"disagree. It reads Redis only, so it needs the configuration of the nodes and no running service.\n" +
			"\"-\" is of a node that has not published it: for the first two seconds.\n\n" +
			"Exit codes: 0 every partition has an owner; 1 one has none; 2 the status could not be read.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != outputTable && output != outputJSON {
				return fmt.Errorf("--output must be table or json, not %q", output)
			}
			c, err := s.Load()
			if err != nil {
				return err
			}
			status, err := service.ReadClusterStatus(cmd.Context(), c)
			if err != nil {
				return err
			}
			if output == outputJSON {
				err = command.PrintJSON(cmd.OutOrStdout(), status)
			} else {
				err = printStatus(cmd.OutOrStdout(), &status)
			}
			if missing := status.Ownerless(); err == nil && len(missing) > 0 {
				return &command.Finding{Err: fmt.Errorf("partitions without an owner: %v", missing)}
			}
			return err
		},
	}
	command.Checks(c)
	c.Flags().StringVarP(&output, "output", "o", outputTable, "table or json")
	return c
}

// printStatus prints tables of the nodes and the partitions.
func printStatus(w io.Writer, status *service.ClusterStatus) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tMODE\tANNOUNCED\tPARTITIONS\tMARKET")
	for _, n := range status.Nodes {
		market := "-"
		if n.Node == status.Feeder {
			market = "feeds"
		}
		fmt.Fprintf(table, "%s\t%s\t%s ago\t%d\t%s\n", n.Node, n.Mode, milliseconds(n.AnnouncedMS), n.Owns, market)
	}
	fmt.Fprintln(table, "\nNODE\tFOLLOWS BECAUSE\tPARTITIONS")
	for _, n := range status.Nodes {
		if len(n.Follows) == 0 {
			fmt.Fprintf(table, "%s\t-\t-\n", n.Node)
		}
		for _, reason := range slices.Sorted(maps.Keys(n.Follows)) {
			fmt.Fprintf(table, "%s\t%s\t%s\n", n.Node, reason, strings.Trim(fmt.Sprint(n.Follows[reason]), "[]"))
		}
	}
	fmt.Fprintln(table, "\nPARTITION\tASSIGNED\tOWNER\tSINCE\tEPOCH\tPOSITION\tLAG")
	for _, p := range status.Partitions {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Partition, cmp.Or(p.Assigned, "-"), cmp.Or(p.Owner, "-"),
			cmp.Or(p.Since, "-"), p.Epoch, p.Position, milliseconds(p.LagMS))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i, m := range status.Misfits {
		if i == 0 {
			fmt.Fprintln(w, "\nDISAGREEMENTS")
		}
		fmt.Fprintln(w, m)
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
