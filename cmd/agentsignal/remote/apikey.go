package remote

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// KeyFlags are the flags that give an API key.
type KeyFlags struct{ key, file string }

// KeyVariable is the environment variable with the API key, used without a flag.
const KeyVariable = "AGENTSIGNAL_API_KEY"

// Add adds the flags to c; purpose completes the help of --key.
func (f *KeyFlags) Add(c *cobra.Command, purpose string) {
	c.Flags().StringVar(&f.key, "key", "", "API key or access token"+purpose+"; others on this machine can see it")
	c.Flags().StringVar(&f.file, "key-file", "",
		"file with the API key, - for standard input; without either: "+KeyVariable)
	c.MarkFlagsMutuallyExclusive("key", "key-file")
}

// Read returns the key of a flag or else of the variable. Without a key it fails.
func (f *KeyFlags) Read(cmd *cobra.Command) (string, error) {
	key := os.Getenv(KeyVariable)
	switch {
	case f.key != "":
		command.WarnVisible(cmd, "--key", "--key-file or "+KeyVariable)
		key = f.key
	case f.file != "":
		var err error
		if key, err = command.ReadSecret(cmd, f.file); err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		if key == "" {
			return "", errors.New("--key-file: the first line is empty")
		}
	}
	key = strings.TrimPrefix(strings.TrimSpace(key), "Bearer ")
	if key == "" {
		return "", errors.New("give an API key by --key-file or " + KeyVariable + ": agentsignal key create makes one")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("the API key has characters that no key has: copy it again")
	}
	return key, nil
}
