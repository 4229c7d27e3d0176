// Package command is shared by the commands of the program: it explains wrong command lines,
// reads secrets and prints results.
package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentsignal/agentsignal/actors/spelling"
)

// ExplainUsage makes cmd and all commands below it answer a wrong command line with one
// sentence and the right form. A command that groups others shows its help if none is named;
// an unknown name is an error.
func ExplainUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(flagFault)
	switch args := cmd.Args; {
	case cmd.HasSubCommands():
		cmd.Args, cmd.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		}
	case args != nil:
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if args(cmd, given) == nil {
				return nil
			}
			number := "many"
			if args(cmd, append(given, "another")) == nil {
				number = "few"
			}
			return fmt.Errorf("too %s arguments: the form is %q", number, cmd.UseLine())
		}
	}
	for _, below := range cmd.Commands() {
		ExplainUsage(below)
	}
}

// unknownCommand returns the error of an unknown command below cmd.
func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			known = append(known, below.Name())
		}
	}
	near := cmp.Or(OrNearest(name, known), ":")
	return fmt.Errorf("no command %q%s %s has %s", name, near, cmd.CommandPath(), strings.Join(known, ", "))
}

// flagFault explains why the flags of cmd are not valid.
func flagFault(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0]) // the flags are of this command
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name, known = "-"+unknown.GetSpecifiedName(), nil
		}
		return fmt.Errorf("no flag %s%s", name,
			cmp.Or(OrNearest(name, known), ": "+cmd.CommandPath()+" --help lists the flags"))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s needs a value: %s", missing.GetFlag().Name, missing.GetFlag().Usage)
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f, rule := invalid.GetFlag(), "is not valid"
	switch f.Value.Type() {
	case "int", "int64":
		rule = "must be a whole number"
	case "float64":
		rule = "must be a number"
	case "bool":
		rule = "must be true or false"
	case "duration":
		rule = "must be a duration such as 30s or 15m"
	}
	return fmt.Errorf("--%s %s: %s", f.Name, rule, f.Usage)
}

// RequireFlags returns an error if a required flag is missing.
func RequireFlags(cmd *cobra.Command, _ []string) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			missing = append(missing, fmt.Sprintf("--%s (%s)", f.Name, f.Usage))
		}
	})
	if len(missing) > 0 {
		return errors.New("give " + strings.Join(missing, " and "))
	}
	return nil
}

// OrNearest returns the end of a sentence on an unknown name: a colon and a question with
// similar known names, or "".
func OrNearest(name string, known []string) string {
	question := spelling.DidYouMean(spelling.Nearest(name, known))
	if question == "" {
		return ""
	}
	return ": " + question
}
