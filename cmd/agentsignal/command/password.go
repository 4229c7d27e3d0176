package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// PasswordFlags are the ways to give a password.
type PasswordFlags struct {
	password, file string
	fromStdin      bool
}

// Add adds the flags to c; rule says which passwords are allowed.
func (f *PasswordFlags) Add(c *cobra.Command, rule string) {
	c.Flags().StringVar(&f.password, "password", "",
		"the password"+rule+"; others on this machine can see it")
	c.Flags().StringVar(&f.file, "password-file", "", "file with the password")
	c.Flags().BoolVar(&f.fromStdin, "password-stdin", false, "read the password from standard input")
	c.MarkFlagsMutuallyExclusive("password", "password-file", "password-stdin")
}

// Read returns the password. Without a flag it asks on the terminal.
func (f *PasswordFlags) Read(cmd *cobra.Command) (string, error) {
	switch {
	case f.password != "":
		WarnVisible(cmd, "--password", "--password-stdin or --password-file")
		return f.password, nil
	case f.file != "", f.fromStdin:
		name, flag := f.file, "--password-file"
		if f.fromStdin {
			name, flag = "-", "--password-stdin"
		}
		password, err := ReadSecret(cmd, name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		return password, nil
	case term.IsTerminal(int(os.Stdin.Fd())):
		return askPassword(cmd.Context(), cmd.ErrOrStderr(), int(os.Stdin.Fd()))
	}
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) { // a list is in brackets
		line += " --" + f.Name + "=" + strings.Trim(f.Value.String(), "[]")
	})
	return "", fmt.Errorf("give the password by --password-file, or by standard input: "+
		`printf %%s "$PASSWORD" | %s --password-stdin`, line)
}

// askPassword reads a password from a terminal without showing it. The terminal is restored
// even if ctx ends first.
func askPassword(ctx context.Context, prompt io.Writer, terminal int) (string, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	fmt.Fprint(prompt, "Password: ")
	defer fmt.Fprintln(prompt)
	type outcome struct {
		text []byte
		err  error
	}
	typed := make(chan outcome, 1)
	go func() {
		text, err := term.ReadPassword(terminal)
		typed <- outcome{text, err}
	}()
	select {
	case o := <-typed:
		if o.err != nil {
			return "", fmt.Errorf("read password: %w", o.err)
		}
		return string(o.text), nil
	case <-ctx.Done(): // reading ends with the process
		_ = term.Restore(terminal, before)
		return "", ctx.Err()
	}
}
