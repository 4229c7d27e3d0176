// Command agentsignal is the service and the tools around it: see agentsignal help. Each
// command has a file of its own here; larger ones are in the packages service and
// receive, and those that use a running service in package terminal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/receive"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/terminal"
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
		<-signals // the second one ends the process at once
		os.Exit(exitForced)
	}()
	if ran, err := newRoot(reload).ExecuteContextC(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agentsignal:", err)
		os.Exit(command.ExitCode(ran, err))
	}
}

// exitForced is the exit code after a second signal.
const exitForced = 130

// newRoot returns the root of all commands. A value of reload makes a service reload its
// settings.
func newRoot(reload <-chan os.Signal) *cobra.Command {
	root := &cobra.Command{
		Use:           "agentsignal",
		Short:         "Agents that produce signals, pushed to dashboards and webhooks",
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRunE: command.RequireFlags,
	}
	s := &service.Settings{}
	flags := root.PersistentFlags()
	flags.StringVar(&s.File, "config", os.Getenv("AGENTSIGNAL_CONFIG"), "configuration file (YAML)")
	flags.StringVar(&s.DataDir, "data-dir", "", "directory of this node's own files; overrides data_dir")
	webhook := receive.Command(s.Dir)
	webhook.AddCommand(terminal.WebhookCommands(s.Dir)...)
	group(root, "Run",
		serveCommand(s, reload),
		configCommand(s),
		doctorCommand(s),
		healthcheckCommand(s),
		clusterCommand(s),
	)
	group(root, "Administer",
		accountCommand(s),
		keyCommand(s),
		auditCommand(s),
		backupCommand(s),
		restoreCommand(s),
	)
	group(root, "Use", append(terminal.Commands(s.Dir),
		webhook,
		backtestCommand(s),
		recordCommand(s),
		verifyCommand(),
	)...)
	root.AddCommand(versionCommand(), manCommand())
	command.ExplainUsage(root)
	return root
}

// group adds commands under a title of their own in the help.
func group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}
