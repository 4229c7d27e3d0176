package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
)

func recordCommand() *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "Export the record of an account, for verify"}
	c.AddCommand(recordExport())
	return c
}

func recordExport() *cobra.Command {
	var address string
	var key remote.KeyFlags
	c := &cobra.Command{
		Use: "export", Short: "Write all signals of the account with their proofs, for verify record",
		Args: cobra.NoArgs,
		Long: "Writes a line for each signal of the account that the newest checkpoint has, with the proofs of\n" +
			"its creation and its closing. It takes two requests a signal, and waits where their rate is\n" +
			"limited. Without its last line, which has the number of signals, an export is cut short.\n\n" +
			"The proofs have the salt of the account, by which signals that are not in the file can still not\n" +
			"be guessed. The API key comes from --key-file or from the variable " + remote.KeyVariable + ".",
		Example: "  agentsignal record export > record.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := remote.ParseAddress(address)
			if err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			secret, err := key.Read(cmd)
			if err != nil {
				return err
			}
			from := &remote.Reader{Address: u, Key: secret}
			n, err := export.Write(cmd.Context(), from, cmd.OutOrStdout())
			if err != nil {
				return fmt.Errorf("the export is not complete: %w", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: exported %d signals\n", n)
			return nil
		},
	}
	c.Flags().StringVar(&address, "url", "http://localhost:8080", "address of the service")
	key.Add(c, "")
	return c
}
