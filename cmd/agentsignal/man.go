package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// manCommand writes the manual pages of all commands, for packages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true // it has the date of today
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "agentsignal " + service.Version}, args[0])
		},
	}
}
