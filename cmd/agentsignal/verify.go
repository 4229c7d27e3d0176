package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
)

func verifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "verify", Short: "Check signals, records and checkpoints offline, by the public key of a service",
		Long: "Check, offline and without the service, what it has recorded, by its public key: the answer\n" +
			"of GET /v1/log/key, which is kept from the first time, since it stays the same.\n\n" +
			record.Limits + "\n\n" + command.ExitCodes,
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
			"GET /v1/signals/{id}; - is standard input.\n\n" + record.Limits + "\n\n" + command.ExitCodes,
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

func verifyConsistency() *cobra.Command {
	var keys publicKeys
	c := &cobra.Command{
		Use:   "consistency OLDER [ANSWER [NEWER]]",
		Short: "Check that nothing was changed or removed between checkpoints",
		Args:  cobra.RangeArgs(1, 3),
		Long: "OLDER is a file with a checkpoint, the answer of GET /v1/log/checkpoint at an earlier time,\n" +
			"ANSWER one with the answer of GET /v1/log/consistency, and NEWER the newer checkpoint if\n" +
			"ANSWER has none. Without ANSWER the command prints the request to send.\n\n" + record.Limits + "\n\n" +
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
				fmt.Fprintf(cmd.OutOrStdout(), "GET /v1/log/consistency?from=%d\n", older.Root.N)
				return nil
			}
			older, newer, err := export.CheckConsistency(files[0], files[1], append(files, nil)[2], opened)
			if err != nil {
				return found(err)
			}
			printCheckpoint(cmd.OutOrStdout(), "older checkpoint", older)
			printCheckpoint(cmd.OutOrStdout(), "newer checkpoint", newer)
			fmt.Fprintf(
				cmd.OutOrStdout(),
				"verified: each log of the newer one begins with all leaves of the older one\n",
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
	fmt.Fprintf(w, "%s number %d of %s, signed at %s: %d leaves in %d logs\n", what, c.Root.N,
		command.Printable(c.Origin), c.At.UTC().Format(time.RFC3339), c.Size(), len(c.Logs))
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
	if len(p.Unproved) > 0 {
		fmt.Fprintf(w, "not proved: %s\n", command.Printable(strings.Join(p.Unproved, ", ")))
	}
	fmt.Fprintln(w, "verified: the service has signed it; the times are those of its clock")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
