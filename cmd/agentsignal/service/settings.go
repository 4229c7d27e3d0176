package service

import (
	"errors"
	"os"

	"github.com/agentsignal/agentsignal/configs"
)

// Settings are the sources of the configuration beside the environment.
type Settings struct {
	File    string // YAML, or empty
	DataDir string // overrides data_dir unless empty
}

// Dir returns the data directory. The error lists all faults of the configuration.
func (s *Settings) Dir() (string, error) {
	c, err := s.Load()
	return c.DataDir, err
}

// Load returns the configuration. The error lists all faults.
func (s *Settings) Load() (configs.Config, error) {
	c, err := configs.Load(s.File, os.Environ())
	if s.DataDir != "" {
		c.DataDir = s.DataDir
	}
	return c, errors.Join(err, checkOptions(c))
}
