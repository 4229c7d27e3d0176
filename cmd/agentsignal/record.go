package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/http/client"
)

// An export reads many signals, and waits where their rate is limited.
const (
	recordAttempts = 20
	recordPause    = 2 * time.Minute
)

// The wait for a checkpoint. One follows new leaves within record.every, 10 seconds unless set.
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
	var scorecard string
	var since []string
	c := &cobra.Command{
		Use: "export", Short: "Write all signals of the account with their proofs, for verify record",
		Args: cobra.NoArgs,
		Long: "Writes a line for each signal of the account that the newest checkpoint has, with the proofs of\n" +
			"its creation and its closing. It takes two requests a signal, and waits where their rate is\n" +
			"limited. Without its last line, which has the number of signals, an export is cut short. If no\n" +
			"checkpoint has a signal of the account yet, it waits for the next one.\n\n" +
			"With --scorecard it first writes the answer of GET /v1/scorecard to a file, and then waits for the\n" +
			"second checkpoint, at most two minutes, so that the record has all that the scorecard counts.\n\n" +
			"With --since the file has the proof that the record begins with a checkpoint that you have kept,\n" +
			"for verify record --since. Checkpoints that witnesses have signed are in it anyway.\n\n" +
			"The proofs have the salt of the account, by which signals that are not in the file can still not\n" +
			"be guessed.\n\n" + remote.KeySources,
		Example: "  agentsignal record export --scorecard scorecard.json > record.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := from.Client(cmd)
			if err != nil {
				return err
			}
			c.Attempts, c.MaxPause = recordAttempts, recordPause
			ctx := cmd.Context()
			kept, err := readFiles(cmd, since...)
			if err != nil {
				return err
			}
			wait, after := checkpointWait, checkpoints{}
			if scorecard != "" {
				if err := writeScorecard(ctx, c, scorecard); err != nil {
					return err
				}
				// The first one may have been begun before the scorecard was made.
				wait, after.left = 2*checkpointWait, 2
				if after.newest, err = export.Signed(ctx, c); err != nil {
					return remote.Explain(err)
				}
			}
			n, err := onceSigned(ctx, cmd.ErrOrStderr(), wait, func() (int64, error) {
				if err := after.pass(ctx, c); err != nil {
					return 0, err
				}
				return export.Write(ctx, c, kept, cmd.OutOrStdout())
			})
			if err != nil {
				return fmt.Errorf("the export is not complete: %w", remote.Explain(err))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: exported %d signals\n", n)
			return nil
		},
	}
	from.Add(c, "")
	c.Flags().StringArrayVar(&since, "since", nil, "file with a checkpoint that you have kept; repeat it for several")
	c.Flags().StringVar(&scorecard, "scorecard", "", "file for the scorecard, which verify record compares with the record")
	return c
}

// checkpoints are new checkpoints that an export waits for.
type checkpoints struct {
	newest time.Time // when the last one seen was signed
	left   int
}

// pass looks for a new checkpoint. It returns export.ErrNotSigned while some are left.
func (k *checkpoints) pass(ctx context.Context, from *client.Client) error {
	if k.left == 0 {
		return nil
	}
	at, err := export.Signed(ctx, from)
	if err != nil {
		return err
	}
	if at.After(k.newest) {
		k.newest = at
		k.left--
	}
	if k.left > 0 {
		return export.ErrNotSigned
	}
	return nil
}

func writeScorecard(ctx context.Context, from *client.Client, file string) error {
	text, err := from.Get(ctx, "/v1/scorecard")
	if err != nil {
		return remote.Explain(err)
	}
	return os.WriteFile(file, text, 0o600)
}

// onceSigned returns what write returns once it does not fail for want of a checkpoint, and reports on info
// that it waits for one. It gives up after the given time.
func onceSigned(ctx context.Context, info io.Writer, wait time.Duration, write func() (int64, error)) (int64, error) {
	for begun, waits := time.Now(), false; ; waits = true {
		n, err := write()
		if !errors.Is(err, export.ErrNotSigned) || time.Since(begun) > wait {
			return n, err
		}
		if !waits {
			fmt.Fprintln(info, "agentsignal: waits for the next checkpoint")
		}
		if !backoff.Sleep(ctx, checkpointPoll) {
			return 0, ctx.Err()
		}
	}
}
