package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// serveCommand runs the service, which reloads its settings on every value of reload.
func serveCommand(s *service.Settings, reload <-chan os.Signal) *cobra.Command {
	var demo bool
	c := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := service.Options{Reload: reload}
			if demo {
				o.Demo = cmd.OutOrStdout()
			}
			return service.Run(cmd.Context(), s, cmd.ErrOrStderr(), o)
		},
	}
	c.Flags().BoolVar(&demo, "demo", false, "create and print a demo account with a key, and run agents for it")
	return c
}
