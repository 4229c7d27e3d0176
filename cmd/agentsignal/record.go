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
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/http/client"
	"github.com/agentsignal/agentsignal/persistence"
)

// An export reads many signals, and waits where their rate is limited.
const (
	recordAttempts = 20
	recordPause    = 2 * time.Minute
)

// The wait for a checkpoint. One follows new leaves within record.every, 10 seconds unless set, and there is one each
// minute.
const (
	checkpointWait = 75 * time.Second
	checkpointPoll = 3 * time.Second
)

func recordCommand(s *service.Settings) *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "Export the record of an account, and accept that Redis was rolled back"}
	c.AddCommand(recordExport(s), recordAccept(s))
	return c
}

func recordAccept(s *service.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "accept-rollback", Short: "Let the record go on although Redis has lost its newest checkpoints",
		Args: cobra.NoArgs,
		Long: "Each node keeps the newest checkpoint of the record that it has seen in its data directory. If Redis\n" +
			"has an older one, as after a backup was restored, no checkpoint is signed: readers who have the newer\n" +
			"one would take the next for forged, and rightly. This command, on a node, accepts that. The record\n" +
			"goes on after the checkpoint that Redis has, with an entry that names what was lost, which everybody\n" +
			"can read. A reader with a lost checkpoint still finds that it contradicts the record; to spare them\n" +
			"that, start with a new record key instead.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Load()
			if err != nil {
				return err
			}
			kept, err := service.NewKeptCheckpoint(c).Load()
			if err != nil {
				return err
			}
			if kept == nil {
				return errors.New("this node has seen no checkpoint: there is nothing to accept")
			}
			return service.WithStore(cmd.Context(), c, func(ctx context.Context, store *persistence.Store) error {
				return acceptRollback(ctx, store, kept, cmd.OutOrStdout())
			})
		},
	}
}

// acceptRollback accepts that Redis does not have a checkpoint that this node has seen.
func acceptRollback(ctx context.Context, store *persistence.Store, kept *record.Signed, out io.Writer) error {
	stored, err := store.Leaves.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound { // Redis is empty
		stored, err = &record.Signed{Checkpoint: &verify.Checkpoint{Origin: kept.Origin}}, nil
	}
	if err != nil {
		return err
	}
	if stored.Origin != kept.Origin {
		return fmt.Errorf("the record %s began after this node has seen %s: there is nothing to accept", stored.Origin,
			kept.Origin)
	}
	if stored.Root.N >= kept.Root.N {
		at, err := store.Leaves.CheckpointAt(ctx, kept.Root.N, stored)
		if err != nil && signal.KindOf(err) != signal.KindNotFound {
			return err
		}
		if err == nil && at.Root == kept.Root {
			return errors.New("there is nothing to accept: Redis has the newest checkpoint that this node has seen")
		}
	}
	back := &record.Rollback{Origin: kept.Origin, At: time.Now().UTC().Truncate(time.Second), Lost: kept.Root.N,
		Root: kept.Root.Hash}
	if err := store.Leaves.AcceptRollback(ctx, back); err != nil {
		return err
	}
	fmt.Fprintf(out, "given up: checkpoint number %d of %s, with %d leaves\n"+
		"the record goes on after number %d of %s, with %d leaves\n", kept.Root.N, stamp(kept.At), kept.Size(),
		stored.Root.N, stamp(stored.At), stored.Size())
	return nil
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
	newest int64 // number of the last one seen
	left   int
}

// pass looks for a new checkpoint. It returns export.ErrNotSigned while some are left.
func (k *checkpoints) pass(ctx context.Context, from *client.Client) error {
	if k.left == 0 {
		return nil
	}
	n, err := export.Signed(ctx, from)
	if err != nil {
		return err
	}
	if n > k.newest {
		k.newest = n
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
