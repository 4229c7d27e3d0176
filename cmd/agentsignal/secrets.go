package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// maxSecretLine bounds what is read as a password, a key or a secret.
const maxSecretLine = 4096

// readSecret returns the first line of a file, of standard input where the name is -.
func readSecret(cmd *cobra.Command, name string) (string, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxSecretLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// warnVisible warns that a flag's value is visible in the list of processes.
func warnVisible(cmd *cobra.Command, flag, instead string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: others on this machine can see the value of %s: use %s\n", flag, instead)
}

// keyFlags are the ways to give an API key.
type keyFlags struct{ key, file string }

// keyVariable holds the API key where no flag gives one.
const keyVariable = "AGENTSIGNAL_API_KEY"

func (f *keyFlags) add(c *cobra.Command, purpose string) {
	c.Flags().StringVar(&f.key, "key", "", "API key or access token"+purpose+"; others on this machine can see it")
	c.Flags().StringVar(&f.file, "key-file", "", "file with the API key, - for standard input; without either: "+keyVariable)
	c.MarkFlagsMutuallyExclusive("key", "key-file")
}

// read returns the key of a flag, else that of the variable. None at all is an error.
func (f *keyFlags) read(cmd *cobra.Command) (string, error) {
	key := os.Getenv(keyVariable)
	switch {
	case f.key != "":
		warnVisible(cmd, "--key", "--key-file or "+keyVariable)
		key = f.key
	case f.file != "":
		var err error
		if key, err = readSecret(cmd, f.file); err != nil {
			return "", fmt.Errorf("--key-file: %w", err)
		}
		if key == "" {
			return "", errors.New("--key-file: the first line is empty")
		}
	}
	key = strings.TrimPrefix(strings.TrimSpace(key), "Bearer ")
	if key == "" {
		return "", errors.New("give an API key by --key-file or " + keyVariable + ": agentsignal key create makes one")
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) || r == ' ' }) {
		return "", errors.New("the API key has characters that no key has: copy it again")
	}
	return key, nil
}
