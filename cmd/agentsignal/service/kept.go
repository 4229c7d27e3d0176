package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/configs"
)

// keptFile has the newest checkpoint that a node has seen, beside its keys.
const keptFile = "record.checkpoint"

// KeptCheckpoint is the file with the newest checkpoint that a node has seen.
type KeptCheckpoint struct{ path string }

// NewKeptCheckpoint returns the file in the data directory of c.
func NewKeptCheckpoint(c configs.Config) *KeptCheckpoint {
	return &KeptCheckpoint{filepath.Join(c.DataDir, keptFile)}
}

// Load implements checkpoints.Keeper.
func (k *KeptCheckpoint) Load() (*record.Signed, error) {
	text, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &record.Signed{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s is not readable, remove it if you trust Redis: %w", k.path, err)
	}
	return c, nil
}

// Save implements checkpoints.Keeper. The file is never incomplete.
func (k *KeptCheckpoint) Save(c *record.Signed) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(k.path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(k.path+".new", k.path)
}
