package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/configs"
)

// settings says where the configuration comes from.
type settings struct {
	file    string
	dataDir string
	first   bool // a command that may be the first to use the data directory
}

// load returns the configuration with the flags over it. The error names all faults
// at once.
func (s *settings) load() (configs.Config, error) {
	c, err := configs.Load(s.file, os.Environ())
	if s.dataDir != "" {
		c.DataDir = s.dataDir
	}
	return c, errors.Join(err, checkOptions(c))
}

func configCommand(s *settings) *cobra.Command {
	config := &cobra.Command{Use: "config", Short: "Check or print the configuration"}
	config.AddCommand(&cobra.Command{
		Use: "check", Short: "Report all faults of the configuration at once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := s.load(); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
			return nil
		},
	}, &cobra.Command{
		Use: "print", Short: "Print every setting as it is in force, secrets as ***", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.load()
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
