package terminal

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// scheduleColumns are the columns of the list of schedules.
var scheduleColumns = []column[client.Schedule]{
	{"schedule_id", func(s *client.Schedule) any { return s.ID }},
	{"agent_id", func(s *client.Schedule) any { return s.Agent }},
	{"strategy", func(s *client.Schedule) any { return s.Strategy }},
	{"timeframe", func(s *client.Schedule) any { return s.Timeframe }},
	{"every", func(s *client.Schedule) any { return s.Every }},
	{"assets", func(s *client.Schedule) any { return strings.Join(s.Assets, ",") }},
	{"max_open", func(s *client.Schedule) any { return s.MaxOpen }},
	{"status", func(s *client.Schedule) any { return s.Status }},
	{"last_run_at", func(s *client.Schedule) any { return s.LastRunAt }},
	{"next_run_at", func(s *client.Schedule) any { return s.NextRunAt }},
	{"failures", func(s *client.Schedule) any { return s.Failures }},
	{"last_error", func(s *client.Schedule) any {
		if s.LastError == nil {
			return ""
		}
		return s.LastError.Code + ": " + s.LastError.Message
	}},
}

func schedulesCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "schedules", Short: "List schedules, and whether they succeed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := client.Collect(c.Schedules(cmd.Context()))
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "schedules", scheduleColumns, all)
		},
	}
	s.add(c, dataDir)
	return c
}
