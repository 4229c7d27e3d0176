package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

func configCommand(s *service.Settings) *cobra.Command {
	config := &cobra.Command{Use: "config", Short: "Check or print the configuration"}
	config.AddCommand(&cobra.Command{
		Use: "check", Short: "Report all faults of the configuration at once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.Load(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}, &cobra.Command{
		Use: "print", Short: "Print every setting in force, secrets as ***", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Load()
			if err != nil {
				return err
			}
			text, err := c.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	})
	return config
}
