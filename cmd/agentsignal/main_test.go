package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m)) }

// runCommand runs a command of the program and returns what it wrote.
var runCommand = commandtest.InProcess(func() *cobra.Command { return newRoot(nil) })

// operator returns an operator of the program with the settings.
func operator(tb testing.TB, settings ...string) commandtest.Operator {
	return commandtest.NewOperator(tb, runCommand, settings...)
}
