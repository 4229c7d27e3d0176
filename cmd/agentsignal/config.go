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
		Use: "keys DIRECTORY", Short: "Make the keys that nodes share, as files jwt.key, encryption.key and record.key",
		Long: "Make the keys that nodes share, as files jwt.key, encryption.key and record.key that only you can read.\n" +
			"Files that exist stay as they are. Nodes read them by AGENTSIGNAL_AUTH_JWT_KEYS_FILE,\n" +
			"AGENTSIGNAL_SECURITY_ENCRYPTION_KEYS_FILE and AGENTSIGNAL_SECURITY_RECORD_KEYS_FILE.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return service.MakeKeys(args[0]) },
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
