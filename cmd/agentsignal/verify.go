package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
)

// verifyLimits is what the commands state beside each success.
const verifyLimits = "This proves when it was recorded, and that nothing was changed or removed since. It does not\n" +
	"prove that no second instance ran whose results were kept back."

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify", Short: "Check signals, records and checkpoints offline, by the public key of a service",
		Long: "Check, offline and without the service, what it has recorded, by its public key: the answer\n" +
			"of GET /v1/log/key, which is kept from the first time, since it stays the same.\n\n" +
			verifyLimits + "\n\n" + command.ExitCodes,
	}
	c.AddCommand(verifySignal(), verifyRecord(), verifyConsistency())
	for _, each := range append(c.Commands(), c) {
		command.Checks(each)
	}
	return c
}

// publicKeys are the flags that give the public keys of a service.
type publicKeys struct{ given []string }

func (k *publicKeys) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&k.given, "key", nil, "public key of the service, NAME+HASH+BASE64, or @FILE, which may "+
		"have several, as GET /v1/log/key shows them")
	_ = c.MarkFlagRequired("key")
}

func verifySignal() *cobra.Command {
	var keys publicKeys
	var checkpoint string
	c := &cobra.Command{
		Use: "signal PROOF [SIGNAL]", Short: "Check the proof of a signal, and that it is shown as recorded",
		Args: cobra.RangeArgs(1, 2),
		Long: "PROOF is a file with the answer of GET /v1/signals/{id}/proof, SIGNAL one with that of\n" +
			"GET /v1/signals/{id}; - is standard input.\n\n" + verifyLimits + "\n\n" + command.ExitCodes,
		Example: "  agentsignal verify signal --key @service.pub proof.json signal.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := readFiles(cmd, append(args, checkpoint)...)
			if err != nil {
				return err
			}
			signed, files := files[len(args)], files[:len(args)]
			opened, err := export.ParseKeys(keys.given)
			if err != nil {
				return err
			}
			p, err := export.CheckProof(files[0], append(files, nil)[1], string(signed), opened)
			if err != nil {
				return found(err)
			}
			printProof(cmd.OutOrStdout(), p)
			return nil
		},
	}
	keys.add(c)
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "file with the checkpoint, if the proof has none")
	return c
}

func verifyRecord() *cobra.Command {
	var keys publicKeys
	var scorecard string
	var maxAge time.Duration
	c := &cobra.Command{
		Use: "record EXPORT", Short: "Check the record of an account: each signal, that none is missing, the scorecard",
		Args: cobra.ExactArgs(1),
		Long: "EXPORT is a file that agentsignal record export has written; - is standard input. It is read\n" +
			"line by line: 100,000 signals take 130 MiB of memory. A scorecard is the answer of\n" +
			"GET /v1/scorecard without parameters that is older than the checkpoint of the export, as\n" +
			"agentsignal record export --scorecard writes it: each figure is computed again from what was\n" +
			"recorded, except for those after costs, because costs are a setting.\n\n" +
			verifyLimits + "\n\n" +
			command.ExitCodes,
		Example: "  agentsignal verify record --key @service.pub record.jsonl --scorecard scorecard.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := export.ParseKeys(keys.given)
			if err != nil {
				return err
			}
			cards, err := readFiles(cmd, scorecard)
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			r, err := export.Check(in, opened, cmd.OutOrStdout())
			if err != nil {
				return found(err)
			}
			if age := time.Since(r.Checkpoint.At); maxAge > 0 && age > maxAge {
				return found(fmt.Errorf("%w: the checkpoint is %s old, and --max-age is %s", verify.ErrOlder,
					age.Round(time.Second), maxAge))
			}
			printRecord(cmd.OutOrStdout(), r)
			if cards[0] != nil {
				card, err := r.Card(cards[0])
				if err != nil {
					return found(err)
				}
				printCard(cmd.OutOrStdout(), card)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "verified. %s\n", verifyLimits)
			return nil
		},
	}
	keys.add(c)
	c.Flags().StringVar(&scorecard, "scorecard", "", "file with the account's scorecard")
	c.Flags().DurationVar(&maxAge, "max-age", 0, "how old the checkpoint may be, such as 1h; 0: any age")
	return c
}

func verifyConsistency() *cobra.Command {
	var keys publicKeys
	c := &cobra.Command{
		Use:   "consistency OLDER [ANSWER [NEWER]]",
		Short: "Check that nothing was changed or removed between checkpoints",
		Args:  cobra.RangeArgs(1, 3),
		Long: "OLDER is a file with a checkpoint, the answer of GET /v1/log/checkpoint at an earlier time,\n" +
			"ANSWER one with the answer of GET /v1/log/consistency, and NEWER the newer checkpoint if\n" +
			"ANSWER has none. Without ANSWER the command prints the request to send.\n\n" + verifyLimits + "\n\n" +
			command.ExitCodes,
		Example: "  agentsignal verify consistency --key @service.pub october.note\n" +
			"  agentsignal verify consistency --key @service.pub october.note answer.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			opened, err := export.ParseKeys(keys.given)
			if err != nil {
				return err
			}
			files, err := readFiles(cmd, args...)
			if err != nil {
				return err
			}
			if len(files) == 1 {
				older, err := opened.Open(files[0])
				if err != nil {
					return found(err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "GET /v1/log/consistency?from=%s\n", export.Sizes(older))
				return nil
			}
			g, err := export.CheckConsistency(files[0], files[1], append(files, nil)[2], opened)
			if err != nil {
				return found(err)
			}
			printCheckpoint(cmd.OutOrStdout(), "older checkpoint", g.Older)
			printCheckpoint(cmd.OutOrStdout(), "newer checkpoint", g.Newer)
			fmt.Fprintf(
				cmd.OutOrStdout(),
				"verified: each log of the newer one begins with all leaves of the older one. %s\n",
				verifyLimits,
			)
			return nil
		},
	}
	keys.add(c)
	return c
}

// readFiles returns the contents of files, nil for an empty name.
func readFiles(cmd *cobra.Command, names ...string) ([][]byte, error) {
	contents := make([][]byte, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		text, err := export.ReadFile(cmd.InOrStdin(), name)
		if err != nil {
			return nil, err
		}
		contents[i] = text
	}
	return contents, nil
}

// found returns err as a finding, unless it is that a file could not be read.
func found(err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok || export.Unreadable(err) {
		return err
	}
	return &command.Finding{Err: err}
}

func printCheckpoint(w io.Writer, what string, c *verify.Checkpoint) {
	fmt.Fprintf(w, "%s of %s, signed at %s: %d leaves in %d logs\n", what, command.Printable(c.Origin),
		c.At.UTC().Format(time.RFC3339), c.Size(), len(c.Logs))
}

func printProof(w io.Writer, p *export.Proof) {
	printCheckpoint(w, "checkpoint", p.Checkpoint)
	id := command.Printable(p.Signal)
	fmt.Fprintf(w, "%s was created at %s, as signal %d of its account\n", id, stamp(p.CreatedAt), p.Created.Created)
	if p.Closed != nil {
		fmt.Fprintf(w, "%s was closed at %s by %s, as closing %d of its account\n", id, stamp(p.ClosedAt),
			command.Printable(p.Reason), p.Closed.Closed)
	} else {
		fmt.Fprintf(w, "%s was not closed then\n", id)
	}
	if p.Shown {
		fmt.Fprintln(w, "the signal is shown as it was recorded")
	}
	fmt.Fprintf(w, "verified. %s\n", verifyLimits)
}

func printRecord(w io.Writer, r *export.Record) {
	printCheckpoint(w, "checkpoint", r.Checkpoint)
	fmt.Fprintf(
		w,
		"%d signals: all that the account had created up to its newest entry, of %s\n",
		r.Signals,
		stamp(r.Last),
	)
	fmt.Fprintf(w, "%d closed signals: all there were then; %d were open\n", r.Closed, r.Signals-r.Closed)
	if r.Before > 0 {
		fmt.Fprintf(
			w,
			"%d older signals are not shown: retention removes the oldest, and the first shown one is of %s\n",
			r.Before,
			stamp(r.First),
		)
	}
}

func printCard(w io.Writer, c *export.Card) {
	of := ""
	if c.Count < c.Recorded {
		of = fmt.Sprintf("; the record has %d later ones", c.Recorded-c.Count)
	}
	fmt.Fprintf(w, "the scorecard is that of the first %d closed signals with prices%s\n", c.Count, of)
	if c.Count > 0 {
		fmt.Fprintf(w, "%d won and %d did not, mean %.4f R before costs; costs of %.4f R a signal are a setting, "+
			"not recorded\n", c.Wins, c.Count-c.Wins, float64(c.MeanR), c.Costs)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
