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

// maxSecretLine limits the line with a password, a key or a secret, in bytes.
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

// WarnVisible warns on standard error that the list of processes shows the value of a flag.
func WarnVisible(cmd *cobra.Command, flag, instead string) {
	const warning = "agentsignal: others on this machine can see the value of %s: use %s\n"
	fmt.Fprintf(cmd.ErrOrStderr(), warning, flag, instead)
}
