package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "agentsignal %s (commit %s, %s)\n",
				service.Version, service.Commit(), runtime.Version())
			return err
		},
	}
}
