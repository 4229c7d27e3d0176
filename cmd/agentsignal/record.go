package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// An export reads many signals, and waits where their rate is limited.
const (
	recordAttempts = 20
	recordPause    = 2 * time.Minute
)

func recordCommand(s *service.Settings) *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "Export the record of an account, for verify"}
	c.AddCommand(recordExport(s))
	return c
}

func recordExport(s *service.Settings) *cobra.Command {
	from := remote.Flags{DataDir: s.Dir}
	c := &cobra.Command{
		Use: "export", Short: "Write all signals of the account with their proofs, for verify record",
		Args: cobra.NoArgs,
		Long: "Writes a line for each signal of the account that the newest checkpoint has, with the proofs of\n" +
			"its creation and its closing. It takes two requests a signal, and waits where their rate is\n" +
			"limited. Without its last line, which has the number of signals, an export is cut short.\n\n" +
			"The proofs have the salt of the account, by which signals that are not in the file can still not\n" +
			"be guessed.\n\n" + remote.KeySources,
		Example: "  agentsignal record export > record.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.Client(cmd)
			if err != nil {
				return err
			}
			c.Attempts, c.MaxPause = recordAttempts, recordPause
			n, err := export.Write(cmd.Context(), c, cmd.OutOrStdout())
			if err != nil {
				return fmt.Errorf("the export is not complete: %w", remote.Explain(err))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: exported %d signals\n", n)
			return nil
		},
	}
	from.Add(c, "")
	return c
}
