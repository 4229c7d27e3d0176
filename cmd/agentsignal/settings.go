package main

import (
	"errors"
	"os"

	"github.com/agentsignal/agentsignal/configs"
)

// settings says where the configuration comes from.
type settings struct {
	file    string
	dataDir string
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
