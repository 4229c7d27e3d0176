// Command agentsignal is the service and the tools around it: see agentsignal
// help. Each command has a file of its own; serve.go puts the service together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	go func() {
		<-signals
		stop()
		<-signals // a second one does not wait for the first to be obeyed
		os.Exit(exitForced)
	}()
	if err := newRoot(reload).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agentsignal:", err)
		os.Exit(exitFailed)
	}
}

// Exit codes beside 0.
const (
	exitFailed = 1
	exitForced = 130
)

// newRoot returns all commands. reload tells a serving process to read its
// settings again.
func newRoot(reload <-chan os.Signal) *cobra.Command {
	root := &cobra.Command{
		Use:           "agentsignal",
		Short:         "Agents that produce signals, pushed to dashboards and webhooks",
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRunE: command.RequireFlags,
	}
	s := &settings{}
	root.PersistentFlags().StringVar(&s.file, "config", os.Getenv("AGENTSIGNAL_CONFIG"), "configuration file (YAML)")
	root.PersistentFlags().StringVar(&s.dataDir, "data-dir", "", "directory of this node's own files; overrides data_dir")
	root.AddCommand(serveCommand(s, reload), accountCommand(s), keyCommand(s), tailCommand(), webhookCommand(), configCommand(s),
		backtestCommand(s), auditCommand(s), doctorCommand(s), healthcheckCommand(s), benchCommand(), versionCommand())
	command.ExplainUsage(root)
	return root
}
