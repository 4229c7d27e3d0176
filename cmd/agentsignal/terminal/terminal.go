// Package terminal has the commands that use a running service by its API: they sign in, run agents, list
// what the account has, and follow the stream.
package terminal

import (
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// Commands returns the commands. dataDir returns the data directory of the service on this machine, which
// may have a key.
func Commands(dataDir func() (string, error)) []*cobra.Command {
	return []*cobra.Command{
		loginCommand(),
		runCommand(dataDir),
		submitCommand(dataDir),
		closeCommand(dataDir),
		agentCommand(dataDir),
		scanCommand(dataDir),
		assetsCommand(dataDir),
		signalsCommand(dataDir),
		signalCommand(dataDir),
		jobsCommand(dataDir),
		schedulesCommand(dataDir),
		scoreCommand(dataDir),
		exportCommand(dataDir),
		tailCommand(dataDir),
	}
}

// WebhookCommands returns the commands of agentsignal webhook that use the API. See Commands.
func WebhookCommands(dataDir func() (string, error)) []*cobra.Command {
	return []*cobra.Command{webhookList(dataDir), webhookFailed(dataDir), webhookRetry(dataDir)}
}

// session is what each of the commands needs: a service, and a way to print its answers.
type session struct {
	from   remote.Flags
	output outputFlags
}

// add adds the flags of a command and completes its help.
func (s *session) add(c *cobra.Command, dataDir func() (string, error)) {
	s.from.DataDir = dataDir
	s.from.Add(c, "")
	s.output.add(c)
	if c.Long == "" {
		c.Long = c.Short + "."
	}
	c.Long += "\n\n" + remote.KeySources
}

// begin returns a client of the service and a printer.
func (s *session) begin(cmd *cobra.Command) (*client.Client, *printer, error) {
	p, err := s.output.printer(cmd.OutOrStdout())
	if err != nil {
		return nil, nil, err
	}
	c, err := s.from.Client(cmd)
	return c, p, err
}
