package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// An export reads many signals, and waits where their rate is limited.
const (
	recordAttempts = 20
	recordPause    = 2 * time.Minute
)

// The wait for the first checkpoint. One is signed each minute.
const (
	checkpointWait = 75 * time.Second
	checkpointPoll = 3 * time.Second
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
			"limited. Without its last line, which has the number of signals, an export is cut short. If no\n" +
			"checkpoint has a signal of the account yet, it waits for the next one.\n\n" +
			"The proofs have the salt of the account, by which signals that are not in the file can still not\n" +
			"be guessed.\n\n" + remote.KeySources,
		Example: "  agentsignal record export > record.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.Client(cmd)
			if err != nil {
				return err
			}
			c.Attempts, c.MaxPause = recordAttempts, recordPause
			n, err := onceSigned(cmd.Context(), cmd.ErrOrStderr(), func() (int64, error) {
				return export.Write(cmd.Context(), c, cmd.OutOrStdout())
			})
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

// onceSigned returns what write returns once it does not fail for want of a checkpoint, and reports on info
// that it waits for one.
func onceSigned(ctx context.Context, info io.Writer, write func() (int64, error)) (int64, error) {
	for begun, waits := time.Now(), false; ; waits = true {
		n, err := write()
		if !errors.Is(err, export.ErrNotSigned) || time.Since(begun) > checkpointWait {
			return n, err
		}
		if !waits {
			fmt.Fprintln(info, "agentsignal: waits for the next checkpoint: one is signed each minute")
		}
		if !backoff.Sleep(ctx, checkpointPoll) {
			return 0, ctx.Err()
		}
	}
}
