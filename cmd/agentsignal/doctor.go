package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/doctor"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

// doctorTimeout limits all checks together, including their retries.
const doctorTimeout = 60 * time.Second

const doctorHelp = `Check what a service with this configuration rests on, whether it runs or not:

  redis    program, append-only file, eviction, memory, replicas, clock, round trip
  machine  data directory, disk, secret files, limit of open files, addresses, certificate
  mail     connects and logs in, without sending
  out      where webhooks may go, authorities, proxy, other hosts
  sources  prices, news, weather and texts: whether they answer, and how fresh they are

Each check is ok, a warning or a fault, with what it means for what clients were answered, which must be
kept, and with what to do. Nothing is changed: without a service and without data no Redis is started.

Exit codes: 0 no fault; 1 there are faults; 2 the checks could not be made, as with a wrong configuration.`

func doctorCommand(s *service.Settings) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "doctor", Short: "Check Redis, this machine, mail, outgoing connections and the sources", Args: cobra.NoArgs,
		Long:    doctorHelp,
		Example: "  agentsignal doctor\n  agentsignal doctor -o json --config /etc/agentsignal/config.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != outputText && output != outputJSON {
				return fmt.Errorf("--output must be text or json, not %q", output)
			}
			c, err := s.Load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), doctorTimeout)
			defer cancel()
			report := doctor.Run(ctx, c, os.Environ())
			if output == outputJSON {
				err = command.PrintJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.Print(cmd.OutOrStdout(), command.ShowsColours(cmd.OutOrStdout()))
			}
			if wrong := report.Err(); err == nil && wrong != nil {
				err = &command.Finding{Err: wrong}
			}
			return err
		},
	}
	command.Checks(c)
	c.Flags().StringVarP(&output, "output", "o", outputText, "text or json")
	return c
}
