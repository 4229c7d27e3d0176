package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// maxSecretLine bounds what is read as a password, a key or a secret.
const maxSecretLine = 4096

// ReadSecret returns the first line of a file, without its end; the name - is standard
// input.
func ReadSecret(cmd *cobra.Command, name string) (string, error) {
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

// WarnVisible warns on standard error that a flag's value shows in the list of processes.
func WarnVisible(cmd *cobra.Command, flag, instead string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "agentsignal: others on this machine can see the value of %s: use %s\n", flag, instead)
}
