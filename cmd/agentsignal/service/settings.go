package service

import (
	"errors"
	"os"

	"github.com/agentsignal/agentsignal/configs"
)

// Settings are where the configuration comes from. The environment is read, too.
type Settings struct {
	File    string // YAML; empty: none
	DataDir string // overrides data_dir unless empty
}

// Load returns the configuration. The error names all faults at once.
func (s *Settings) Load() (configs.Config, error) {
	c, err := configs.Load(s.File, os.Environ())
	if s.DataDir != "" {
		c.DataDir = s.DataDir
	}
	return c, errors.Join(err, checkOptions(c))
}
